#include "analysis/study/merge_results.h"

#include <fmt/format.h>

#include <system_error>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/study/database.h"
#include "analysis/study/study_results.h"

namespace kvloupe {

namespace {
/// Another results file beside a database, as "part", as long as this object lives.
class Attached {
 public:
  Attached(Database& database, const std::filesystem::path& path) : database_(database) {
    Statement attach(database, "ATTACH DATABASE ? AS part");
    attach.bind(0, sqlite_name(path)).run();
  }
  ~Attached() {
    try {
      database_.run("DETACH DATABASE part");
    } catch (const FileError&) {  // the database is closed next
    }
  }
  Attached(const Attached&) = delete;
  Attached& operator=(const Attached&) = delete;

 private:
  Database& database_;
};
}  // namespace

StudyResults::StudyResults(const std::filesystem::path& path, const Like& like)
    : path_(path.string()), database_(writable(path)) {
  if (database_.number("PRAGMA page_count") != 0) {
    check_kind();
    add_tables();
    return;
  }
  const Attached part(database_, like.path);
  database_.transaction([&] {
    make_tables();
    database_.run(R"(
INSERT INTO main.settings SELECT * FROM part.settings;
INSERT INTO main.traces SELECT * FROM part.traces;
INSERT INTO main.measures SELECT * FROM part.measures;
INSERT INTO main.items SELECT item, trace, task, policy, budget, block, entries, tokens, compression,
  'waiting', '', 0 FROM part.items;)");
  });
}

void StudyResults::check_same_study(const std::string& part) {
  {
    Statement other(
        database_,
        "SELECT a.name, a.value, b.value FROM main.settings a LEFT JOIN part.settings b "
        "USING (name) WHERE a.value IS NOT b.value ORDER BY a.name LIMIT 1");
    if (other.next()) {
      throw FileError(part, fmt::format("holds a study with other {}: {} there, {} in {}; leave it "
                                        "out, or choose another target",
                                        in_one_line(other.text(0)), in_quotes(other.text(2), 200),
                                        in_quotes(other.text(1), 200), in_one_line(path_, 200)));
    }
  }
  {
    Statement changed(
        database_,
        "SELECT a.name FROM main.traces a LEFT JOIN part.traces b USING (trace) WHERE "
        "a.name IS NOT b.name OR (a.identity != '' AND b.identity != '' AND "
        "a.identity != b.identity) LIMIT 1");
    if (changed.next()) {
      throw FileError(part, "has results of " + in_quotes(changed.text(0), 200) +
                                " as that file was before or after a change; compute them again");
    }
  }
  const char* const differences[] = {
      "SELECT (SELECT COUNT(*) FROM main.measures) != (SELECT COUNT(*) FROM part.measures)",
      "SELECT COUNT(*) FROM main.measures a LEFT JOIN part.measures b USING (measure) WHERE a.name "
      "IS NOT b.name",
      "SELECT (SELECT COUNT(*) FROM main.items) != (SELECT COUNT(*) FROM part.items)",
      "SELECT COUNT(*) FROM main.items a LEFT JOIN part.items b USING (item) WHERE (a.trace, "
      "a.task, a.policy, a.budget, a.block) IS NOT (b.trace, b.task, b.policy, b.budget, b.block)"};
  for (const char* const question : differences) {
    if (database_.number(question) == 0) continue;
    throw FileError(part, "is damaged: its items are not those of the study; leave it out");
  }
}

void StudyResults::take(const std::filesystem::path& part) {
  const Attached attached(database_, part);
  check_same_study(part.string());
  const auto has = [&](const char* table) {
    return database_.number(
               fmt::format("SELECT COUNT(*) FROM part.sqlite_master WHERE name = '{}'", table)) > 0;
  };
  // A file of an earlier version may lack any of these.
  const bool at_once = has("at_once"), prompts = has("run_prompts");
  const bool roles = has("roles"), models = has("models"), folders = has("folders");
  database_.transaction([&] {
    database_.run(R"(
CREATE TEMP TABLE taken AS SELECT p.item FROM part.items p JOIN main.items m USING (item)
  WHERE p.state = 'done' AND m.state != 'done';
UPDATE main.items SET (state, problem, seconds, entries, tokens, compression) =
  (SELECT state, problem, seconds, entries, tokens, compression FROM part.items p
   WHERE p.item = main.items.item)
  WHERE item IN (SELECT item FROM taken);
INSERT INTO main.replay_values SELECT * FROM part.replay_values
  WHERE item IN (SELECT item FROM taken);
INSERT INTO main.head_values SELECT * FROM part.head_values WHERE item IN (SELECT item FROM taken);
INSERT INTO main.step_values SELECT * FROM part.step_values WHERE item IN (SELECT item FROM taken);
UPDATE main.items SET (state, problem) =
  (SELECT state, problem FROM part.items p WHERE p.item = main.items.item)
  WHERE state = 'waiting' AND item IN (SELECT item FROM part.items WHERE state = 'failed');)");
    if (at_once) {
      database_.run(
          "INSERT OR IGNORE INTO main.at_once SELECT item FROM part.at_once "
          "WHERE item IN (SELECT item FROM taken)");
    }
    if (roles) database_.run("INSERT OR IGNORE INTO main.roles SELECT * FROM part.roles");
    if (models) database_.run("INSERT OR IGNORE INTO main.models SELECT * FROM part.models");
    if (folders) {
      Statement rows(database_, "SELECT folder FROM part.folders");
      while (rows.next()) add_study_folder(part.parent_path() / rows.text(0));
    }
    if (prompts) {
      database_.run(R"(
INSERT OR IGNORE INTO main.prompts (stored) SELECT stored FROM part.run_prompts
  JOIN part.prompts USING (prompt) WHERE item IN (SELECT item FROM taken);
INSERT OR REPLACE INTO main.run_prompts SELECT r.item, m.prompt, r.expected, r.answer
  FROM part.run_prompts r JOIN part.prompts p USING (prompt) JOIN main.prompts m USING (stored)
  WHERE r.item IN (SELECT item FROM taken);)");
    }
    database_.run(R"(
UPDATE main.traces SET identity =
  (SELECT identity FROM part.traces p WHERE p.trace = main.traces.trace) WHERE identity = '';
DROP TABLE taken;)");
  });
}

MergedResults merge_results(const std::vector<std::filesystem::path>& parts,
                            const std::filesystem::path& target) {
  if (parts.empty()) throw UsageError("study --merge: name the results files to join");
  std::error_code error;
  for (const std::filesystem::path& part : parts) {
    const StudyResults readable(part);  // what cannot be read is found before any work
    if (std::filesystem::equivalent(part, target, error)) {
      throw FileError(
          target.string(),
          "is among the files to join; name it as the target only, it keeps what it has");
    }
  }
  const StudyLock lock(target);
  StudyResults results(target, StudyResults::Like{parts.front()});
  for (const std::filesystem::path& part : parts) results.take(part);
  MergedResults merged;
  for (const StudyResults::Item& item : results.items()) {
    ++merged.items;
    merged.done += item.state == "done" ? 1 : 0;
    merged.failed += item.state == "failed" ? 1 : 0;
  }
  return merged;
}

}  // namespace kvloupe
