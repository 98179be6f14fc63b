#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "app/session/fields.h"
#include "app/session/state.h"

namespace kvloupe::window {

/// The whole state as JSON, with a format name and version.
std::string session_text(WorkspaceState state);

/// Themes and colour maps by their names, as files of the window have them.
JsonFields::Words<Theme> theme_words();
JsonFields::Words<figure::AmountMap> amount_words();

/// By its ending: a path that may be a trace or a session.
bool is_session_file(const std::filesystem::path& path);

/// Reads a session file. Throws FileError naming the field: not JSON, another format, a newer
/// version, an unknown field, a wrong type, a value out of range, a spec that does not parse. What
/// the trace itself decides (layer, head, step) is checked when the trace is open.
WorkspaceState read_session(const std::filesystem::path& path);

/// The view of a page of a lesson: fields of a session file as JSON, without the trace and without
/// the reader's own settings (theme, colours, scale, patterns). Absent fields have the values of
/// the first start. Throws UsageError naming the field.
WorkspaceState read_view(std::string_view json);

/// Writes under a temporary name and renames. Throws FileError.
void write_session(const WorkspaceState& state, const std::filesystem::path& path);

}  // namespace kvloupe::window
