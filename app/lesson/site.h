#pragma once
// The lessons as a site: a folder of web pages that any host serves and a browser opens from a
// disk.

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/base/core/progress.h"
#include "app/document/document.h"
#include "app/scene/text_metrics.h"

namespace kvloupe::lesson {

/// The files of a site: index.html, one page for each lesson, glossary.html, claims.html. `also`:
/// further files of the folder, as text and address, which the index links to. `said` gets a line
/// for each file. Returns what could not be shown, as WrittenLesson::problems. A page is written
/// whole or not at all. Throws FileError, Cancelled.
std::vector<std::string> write_site(const std::filesystem::path& folder,
                                    const std::vector<figure::document::Link>& also,
                                    const figure::TextMetrics& fonts, Progress& progress,
                                    const std::function<void(const std::string&)>& said);

/// A page of docs/ as a document: titles, paragraphs, lists and tables of Markdown. Of links that
/// lead to other files of the docs the words stay.
figure::document::Document page_of_docs(std::string_view markdown);

/// docs/glossary.md and docs/claims.md, as of the build of the program.
std::string_view glossary_text();
std::string_view claims_text();

}  // namespace kvloupe::lesson
