#include "analysis/study/study_results.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string_view>
#include <system_error>
#include <tuple>

#include "analysis/base/core/error.h"
#include "analysis/base/text/text.h"
#include "analysis/math/head_roles.h"
#include "analysis/policy/kit/policy_catalog.h"
#include "analysis/policy/policy_files.h"
#include "version.h"

namespace kvloupe {

namespace {
constexpr long kApplication = 0x6B766C73;  // "kvls", in the header of the file
constexpr long kVersion = 2;               // of the tables; others are refused

// One row of replay_values is the mean over the heads. In step_values, layer and head −1 stand for
// the mean over the heads. NULL: unknown, or the measure does not apply to the policy.
constexpr const char* kTables = R"(
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE traces (trace INTEGER PRIMARY KEY, name TEXT NOT NULL, identity TEXT NOT NULL);
CREATE TABLE measures (measure INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE items (item INTEGER PRIMARY KEY, trace INTEGER NOT NULL, task TEXT NOT NULL,
  policy TEXT NOT NULL,
  budget TEXT NOT NULL, block TEXT NOT NULL, entries INTEGER NOT NULL, tokens INTEGER NOT NULL,
  compression TEXT NOT NULL, state TEXT NOT NULL, problem TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE replay_values (item INTEGER, measure INTEGER, value REAL,
  PRIMARY KEY (item, measure)) WITHOUT ROWID;
CREATE TABLE head_values (item INTEGER, measure INTEGER, layer INTEGER, head INTEGER, value REAL,
  PRIMARY KEY (item, measure, layer, head)) WITHOUT ROWID;
CREATE TABLE step_values (item INTEGER, measure INTEGER, layer INTEGER, head INTEGER, step INTEGER,
  value REAL, PRIMARY KEY (item, measure, layer, head, step)) WITHOUT ROWID;
)";

// The items that compressed their prompt at once, known when they are done; and what ran in the
// model, each prompt once; the roles of query heads and the model of each trace; where the study
// file was. Files of this version from before a table hold the word "all" only, and no prompts,
// roles or models.
constexpr const char* kLaterTables = R"(
CREATE TABLE IF NOT EXISTS at_once (item INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS prompts (prompt INTEGER PRIMARY KEY, stored TEXT NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS run_prompts (item INTEGER PRIMARY KEY, prompt INTEGER NOT NULL,
  expected TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS roles (trace INTEGER, layer INTEGER, head INTEGER, query_head INTEGER,
  role TEXT, value REAL, PRIMARY KEY (layer, head, trace, query_head, role)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS models (trace INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS folders (folder TEXT PRIMARY KEY) WITHOUT ROWID;
)";

/// The settings that results depend on, each with its name in a message about a change.
std::vector<std::pair<std::string, std::string>> settings_of(const Study& study) {
  std::vector<std::string> traces, policies, budgets, blocks, files, prompts, tasks;
  for (const PromptPlace& prompt : study.prompts) prompts.push_back(prompt.name);
  const bool probe = std::any_of(
      study.policies.begin(), study.policies.end(),
      [](const PolicySpec& policy) { return has_trait(policy, &PolicyTraits::reads_probe); });
  for (const ModelTask& task : study.tasks) {
    tasks.push_back(fmt::format("{} (lengths [{}], depths [{}], samples {}, needles {}, seed {})",
                                task.task, fmt::join(task.lengths, ", "),
                                fmt::join(task.depths, ", "), task.samples, task.needles,
                                task.seed));
    if (!task.prompts.empty()) {
      std::vector<std::string> own;
      for (const PromptPlace& prompt : task.prompts) own.push_back(prompt.name);
      tasks.back() += fmt::format(" prompts [{}]", fmt::join(own, ", "));
    }
    if (task.task == kAnswerTask) tasks.back() += fmt::format(" tokens {}", task.tokens);
    if (probe) tasks.back() += " probe " + study.probe;
    if (study.chat) tasks.back() += " chat";
    if (!study.system.empty()) tasks.back() += " system " + in_quotes(study.system, 200);
  }
  for (const StudyTrace& trace : study.traces) traces.push_back(trace.name);
  for (const PolicySpec& policy : study.policies) {
    policies.push_back(policy.text());
    const std::string text = policy_files(policy, study.path.parent_path());
    if (!text.empty()) files.push_back(text);
  }
  for (const Budget& budget : study.budgets) budgets.push_back(budget.text());
  for (const int block : study.blocks) blocks.push_back(block_text(block));
  const auto list = [](const std::vector<std::string>& texts) {
    return fmt::format("{}", fmt::join(texts, ", "));
  };
  return {{"version", KVLOUPE_VERSION},
          {"traces", list(traces)},
          {"policies", list(policies)},
          {"policy files", list(files)},
          {"budgets", list(budgets)},
          {"blocks", list(blocks)},
          {"compression", study.compression ? compression_name(*study.compression) : "capture"},
          {"measures", list(study.measures)},
          {"reduce", reduce_name(study.reduce)},
          {"model", study.model},
          {"prompts", list(prompts)},
          {"tasks", list(tasks)},
          {"dtype", study.dtype},
          {"positions", study.compact ? "compact" : "original"}};
}

Database open_existing(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error))
    throw FileError(path.string(), not_results(path));
  return {path, Database::Access::read};
}

/// The first column of all rows.
std::vector<std::string> texts_of(Database& database, const char* sql) {
  std::vector<std::string> texts;
  for (Statement rows(database, sql); rows.next();) texts.push_back(rows.text(0));
  return texts;
}

/// The first column of the row of a name; empty without one.
std::string text_of(Database& database, const char* sql, const std::string& name) {
  Statement row(database, sql);
  return row.bind(0, name).next() ? row.text(0) : "";
}
}  // namespace

bool is_study_results(const std::filesystem::path& path) {
  constexpr std::string_view kStart("SQLite format 3\0", 16);
  constexpr std::size_t kMark = 68;  // where SQLite stores PRAGMA application_id, high byte first
  std::ifstream in(path, std::ios::binary);
  std::string start(kMark + 4, '\0');
  in.read(start.data(), static_cast<std::streamsize>(start.size()));
  return in && start.starts_with(kStart) && start.substr(kMark) == "kvls";
}

Database StudyResults::writable(const std::filesystem::path& path) {
  std::error_code error;
  // A device or a pipe would take the results and lose them.
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error))
    throw FileError(path.string(), "is a folder or a device; name a file");
  return {path, Database::Access::write};
}

StudyResults::StudyResults(const std::filesystem::path& path)
    : path_(path.string()), database_(open_existing(path)) {
  check_kind();
}

StudyResults::StudyResults(const std::filesystem::path& path, const Study& study,
                           const StudyPlan& plan)
    : StudyResults(path, settings_of(study), measures_of(study), plan) {
  // Traces have names from the study's folder.
  if (!study.path.empty()) add_study_folder(study.path.parent_path());
}

StudyResults::StudyResults(const std::filesystem::path& path, const Settings& settings,
                           const std::vector<std::string>& measures, const StudyPlan& plan)
    : path_(path.string()), database_(writable(path)) {
  // A study that ended while it made the file left one without pages.
  if (database_.number("PRAGMA page_count") == 0) {
    create(settings, measures, plan);
  } else {
    check_kind();
    add_tables();
    check_same(settings, measures, plan);
  }
}

void StudyResults::add_study_folder(const std::filesystem::path& folder) {
  // Both folders may be moved together.
  const auto whole = [](const std::filesystem::path& path) {
    return std::filesystem::absolute(path.empty() ? "." : path).lexically_normal();
  };
  std::error_code error;
  const std::filesystem::path relative = std::filesystem::relative(
      whole(folder), whole(std::filesystem::path(path_).parent_path()), error);
  if (error) return;
  Statement known(database_, "INSERT OR IGNORE INTO folders VALUES (?)");
  known.bind(0, relative.string()).run();
}

StudyResults::StudyResults(const std::filesystem::path& path, Checked /*checked*/)
    : path_(path.string()), database_(open_existing(path)) {}

bool StudyResults::has_table(const char* name) {
  return database_.number(
             fmt::format("SELECT COUNT(*) FROM sqlite_master WHERE name = '{}'", name)) > 0;
}

std::vector<StudyResults::Role> StudyResults::roles(int layer, int head) {
  std::vector<Role> roles;
  if (!has_table("roles")) return roles;
  Statement rows(database_,
                 "SELECT name, query_head, role, value FROM roles JOIN traces USING (trace) "
                 "WHERE layer = ? AND head = ? ORDER BY trace, query_head");
  rows.bind(0, layer).bind(1, head);
  while (rows.next()) {
    const std::string name = rows.text(2);
    const auto found = std::find_if(role_catalog().begin(), role_catalog().end(),
                                    [&](const RoleInfo& role) { return name == role.name; });
    if (found == role_catalog().end()) continue;  // of another version
    roles.push_back({rows.text(0), rows.integer(1),
                     static_cast<int>(found - role_catalog().begin()), rows.real(3)});
  }
  return roles;
}

std::vector<std::pair<std::string, std::string>> StudyResults::models() {
  std::vector<std::pair<std::string, std::string>> models;
  if (!has_table("models")) return models;
  Statement rows(database_,
                 "SELECT fingerprint, name, MIN(trace) FROM models JOIN traces USING (trace) "
                 "GROUP BY fingerprint ORDER BY 3");
  while (rows.next()) models.emplace_back(rows.text(0), rows.text(1));
  return models;
}

std::string StudyResults::model_name() {
  const std::filesystem::path model = setting("model");
  return (model.has_filename() ? model : model.parent_path()).filename().string();
}

std::string StudyResults::model_of(const std::string& trace) {
  if (!has_table("models")) return {};
  return text_of(database_,
                 "SELECT fingerprint FROM models JOIN traces USING (trace) WHERE name = ?", trace);
}

void StudyResults::require_one_model() {
  constexpr const char* kAdvice = "no mean is about several models, so make a results file of each";
  if (const auto found = fingerprints(); found.size() > 1) {
    throw FileError(path_,
                    fmt::format("has prompts of {} models (fingerprints {}, {}); {}", found.size(),
                                in_one_line(found[0], 20), in_one_line(found[1], 20), kAdvice));
  }
  if (const auto found = models(); found.size() > 1) {
    throw FileError(path_, fmt::format("has traces of {} models, such as {} and {}; {}",
                                       found.size(), in_one_line(found[0].second, 200),
                                       in_one_line(found[1].second, 200), kAdvice));
  }
}

std::string StudyResults::trace_identity(const std::string& name) {
  return text_of(database_, "SELECT identity FROM traces WHERE name = ?", name);
}

std::vector<std::string> StudyResults::study_folders() {
  if (!has_table("folders")) return {};
  return texts_of(database_, "SELECT folder FROM folders ORDER BY 1");
}

bool StudyResults::is_of(const Study& study) {
  const Settings settings = settings_of(study);
  return std::all_of(settings.begin(), settings.end(), [&](const auto& one) {
    return one.first == "version" || setting(one.first) == one.second;
  });
}

void StudyResults::check_kind() {
  if (database_.number("PRAGMA application_id") != kApplication) {
    throw FileError(path_, not_results(path_));
  }
  const long version = database_.number("PRAGMA user_version");
  if (version != kVersion) {
    throw FileError(path_,
                    fmt::format("was written by {} kvloupe (results version {}, this one "
                                "reads {}); use that kvloupe, or choose another name",
                                version > kVersion ? "a newer" : "an earlier", version, kVersion));
  }
  check_whole();
}

void StudyResults::check_whole() {
  // Numbers of items and measures are places in lists; every value has both.
  const char* const wrong[] = {
      "SELECT COUNT(*) != COALESCE(MAX(item), -1) + 1 OR COALESCE(MIN(item), 0) != 0 FROM items",
      "SELECT COUNT(*) != COALESCE(MAX(measure), -1) + 1 OR COALESCE(MIN(measure), 0) != 0 FROM "
      "measures",
      "SELECT COUNT(*) FROM items WHERE trace NOT IN (SELECT trace FROM traces)",
      "SELECT COUNT(*) FROM replay_values WHERE item NOT IN (SELECT item FROM items) OR measure "
      "NOT IN (SELECT measure FROM measures)",
      "SELECT COUNT(*) FROM head_values WHERE item NOT IN (SELECT item FROM items) OR measure NOT "
      "IN (SELECT measure FROM measures)",
      "SELECT COUNT(*) FROM step_values WHERE item NOT IN (SELECT item FROM items) OR measure NOT "
      "IN (SELECT measure FROM measures)"};
  for (const char* const question : wrong) {
    if (database_.number(question) == 0) continue;
    throw FileError(path_, "is damaged: rows do not belong together; choose another name");
  }
}

void StudyResults::make_tables() {
  database_.run(
      fmt::format("PRAGMA application_id = {}; PRAGMA user_version = {};", kApplication, kVersion));
  database_.run(kTables);
  add_tables();
}

void StudyResults::add_tables() { database_.run(kLaterTables); }

void StudyResults::create(const Settings& settings, const std::vector<std::string>& measures,
                          const StudyPlan& plan) {
  database_.transaction([&] {
    make_tables();
    Statement setting(database_, "INSERT INTO settings VALUES (?, ?)");
    for (const auto& [name, value] : settings) setting.bind(0, name).bind(1, value).run();
    Statement measure(database_, "INSERT INTO measures VALUES (?, ?)");
    for (std::size_t i = 0; i < measures.size(); ++i) {
      measure.bind(0, static_cast<long>(i)).bind(1, measures[i]).run();
    }
    add_plan(plan);
  });
}

/// The traces and items of a plan that are not there.
void StudyResults::add_plan(const StudyPlan& plan) {
  Statement trace(database_, "INSERT OR IGNORE INTO traces VALUES (?, ?, ?)");
  for (std::size_t i = 0; i < plan.sources.size(); ++i) {
    trace.bind(0, static_cast<long>(i)).bind(1, plan.sources[i].name);
    trace.bind(2, plan.sources[i].identity).run();
  }
  Statement item(
      database_,
      "INSERT OR IGNORE INTO items VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'waiting', '', 0)");
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const StudyItem& one = plan.items[i];
    item.bind(0, static_cast<long>(i)).bind(1, one.trace).bind(2, plan.source(one).task);
    item.bind(3, one.policy).bind(4, one.budget).bind(5, one.block_word);
    item.bind(6, one.entries).bind(7, one.block).bind(8, one.compression).run();
  }
}

std::vector<long> StudyResults::places_of_sources(const StudyPlan& plan) {
  std::map<std::pair<std::string, std::string>, long> known;  // a prompt may serve several tasks
  for (std::size_t i = 0; i < plan.sources.size(); ++i)
    known.emplace(std::pair(plan.sources[i].name, plan.sources[i].task), static_cast<long>(i));
  std::vector<long> places;
  Statement rows(
      database_,
      "SELECT name, task FROM traces LEFT JOIN (SELECT trace, MIN(task) AS task FROM items "
      "GROUP BY trace) USING (trace) ORDER BY trace");
  while (rows.next()) {
    const auto found = known.find({rows.text(0), rows.text(1)});
    places.push_back(found == known.end() ? -1 : found->second);
  }
  return places;
}

std::vector<long> StudyResults::places_of_items(const StudyPlan& plan,
                                                const std::vector<long>& sources) {
  using Key = std::tuple<long, std::string, std::string, std::string>;
  std::map<Key, long> known;
  for (std::size_t i = 0; i < plan.items.size(); ++i) {
    const StudyItem& one = plan.items[i];
    known.emplace(Key{one.trace, one.policy, one.budget, one.block_word}, static_cast<long>(i));
  }
  std::vector<long> places;
  Statement rows(database_, "SELECT trace, policy, budget, block FROM items ORDER BY item");
  while (rows.next()) {
    const long trace = sources.at(static_cast<std::size_t>(rows.integer(0)));
    const auto found = known.find({trace, rows.text(1), rows.text(2), rows.text(3)});
    places.push_back(found == known.end() ? -1 : found->second);
  }
  return places;
}

/// More policies, budgets, blocks, traces or prompts leave what is done as it is; a file that a
/// policy reads must be the same.
bool StudyResults::may_grow(const std::string& name, const std::string& before,
                            const std::string& now) {
  if (name == "policy files")
    return before.empty() || (", " + now + ", ").find(", " + before + ", ") != std::string::npos;
  return name == "policies" || name == "budgets" || name == "blocks" || name == "traces" ||
         name == "prompts";
}

/// Gives what is there the places of another plan, and adds the rest of that plan.
void StudyResults::grow(const Settings& settings, const StudyPlan& plan,
                        const std::vector<long>& sources, const std::vector<long>& places) {
  database_.run(
      "CREATE TEMP TABLE moved_item (old INTEGER PRIMARY KEY, new INTEGER);"
      "CREATE TEMP TABLE moved_trace (old INTEGER PRIMARY KEY, new INTEGER)");
  for (const auto& [what, moved] : {std::pair{"item", &places}, {"trace", &sources}}) {
    Statement row(database_, fmt::format("INSERT INTO moved_{} VALUES (?, ?)", what));
    for (std::size_t i = 0; i < moved->size(); ++i)
      row.bind(0, static_cast<long>(i)).bind(1, (*moved)[i]).run();
  }
  const std::pair<const char*, const char*> columns[] = {
      {"items", "item"},       {"replay_values", "item"}, {"head_values", "item"},
      {"step_values", "item"}, {"at_once", "item"},       {"run_prompts", "item"},
      {"items", "trace"},      {"traces", "trace"},       {"roles", "trace"},
      {"models", "trace"}};
  for (const auto& [table, column] : columns) {  // by numbers that no row has
    database_.run(
        fmt::format("UPDATE {0} SET {1} = -1 - (SELECT new FROM moved_{1} WHERE old = "
                    "{1}); UPDATE {0} SET {1} = -1 - {1}",
                    table, column));
  }
  database_.run("DROP TABLE moved_item; DROP TABLE moved_trace");
  Statement setting(database_, "UPDATE settings SET value = ? WHERE name = ?");
  for (const auto& [name, value] : settings) setting.bind(0, value).bind(1, name).run();
  add_plan(plan);
}

void StudyResults::check_same(const Settings& settings,
                              const std::vector<std::string>& new_measures, const StudyPlan& plan) {
  // Those of the file, by their places in the plan.
  const std::vector<long> sources = places_of_sources(plan);
  const std::vector<long> places = places_of_items(plan, sources);
  const bool all_there = std::find(places.begin(), places.end(), -1) == places.end() &&
                         std::find(sources.begin(), sources.end(), -1) == sources.end();
  bool same_settings = true;
  for (const auto& [name, value] : settings) {
    const std::string before = setting(name);
    same_settings = same_settings && before == value;
    if (before == value || (all_there && may_grow(name, before, value))) continue;
    throw FileError(path_, fmt::format("holds a study with other {}: {} there, {} now; choose "
                                       "another name, or undo the change",
                                       name, in_quotes(before, 200), in_quotes(value, 200)));
  }
  // A newer version may measure more at the end; elsewhere values would get another measure's name.
  const std::vector<std::string> old_measures = measures();
  for (std::size_t i = 0; i < std::min(old_measures.size(), new_measures.size()); ++i) {
    if (old_measures[i] != new_measures[i]) {
      throw FileError(path_,
                      fmt::format("was begun by a version whose tasks measure other things "
                                  "({} there, {} now); choose another name",
                                  in_quotes(old_measures[i], 80), in_quotes(new_measures[i], 80)));
    }
  }
  const std::vector<std::string> before =
      texts_of(database_, "SELECT identity FROM traces ORDER BY trace");
  const bool equal = before.size() == plan.sources.size() && places.size() == plan.items.size();
  if (!all_there || (same_settings && !equal)) {
    throw FileError(path_, "is damaged: traces or items are missing; choose another name");
  }
  for (std::size_t i = 0; i < before.size(); ++i) {
    // A trace that cannot be opened now is a problem of the items that wait for it.
    const StudySource& source = plan.sources[static_cast<std::size_t>(sources[i])];
    if (before[i] == source.identity || source.identity.empty()) continue;
    if (before[i] == source.earlier_identity) continue;
    Statement done(database_, "SELECT COUNT(*) FROM items WHERE trace = ? AND state = 'done'");
    done.bind(0, static_cast<long>(i));
    done.next();
    if (done.integer(0) > 0) {
      throw FileError(
          path_,
          "has results of " + in_quotes(source.name, 200) +
              (source.task == kReplayTask
                   ? " as the file was before a change; choose another name, or put that file back"
                   : " as the file was or the model was before a change; choose another name, or "
                     "undo the change"));
    }
  }
  database_.transaction([&] {
    if (!same_settings) grow(settings, plan, sources, places);
    Statement trace(database_, "UPDATE traces SET identity = ? WHERE trace = ?");
    for (std::size_t i = 0; i < plan.sources.size(); ++i) {
      if (plan.sources[i].identity.empty()) continue;
      trace.bind(0, plan.sources[i].identity).bind(1, static_cast<long>(i)).run();
    }
    Statement measure(database_, "INSERT INTO measures VALUES (?, ?)");
    for (std::size_t i = old_measures.size(); i < new_measures.size(); ++i)
      measure.bind(0, static_cast<long>(i)).bind(1, new_measures[i]).run();
    // The plan did not know these while a trace could not be opened.
    Statement item(database_,
                   "UPDATE items SET entries = ?, tokens = ?, compression = ? WHERE item = ? AND "
                   "state != 'done'");
    for (std::size_t i = 0; i < plan.items.size(); ++i) {
      const StudyItem& one = plan.items[i];
      if (!one.problem.empty()) continue;
      item.bind(0, one.entries).bind(1, one.block).bind(2, one.compression);
      item.bind(3, static_cast<long>(i)).run();
    }
  });
}

std::string StudyResults::setting(const std::string& name) {
  return text_of(database_, "SELECT value FROM settings WHERE name = ?", name);
}

StudyResults::Settings StudyResults::settings() {
  Settings settings;
  Statement rows(database_, "SELECT name, value FROM settings ORDER BY 1");
  while (rows.next()) settings.emplace_back(rows.text(0), rows.text(1));
  return settings;
}

std::vector<std::string> StudyResults::measures() {
  return texts_of(database_, "SELECT name FROM measures ORDER BY measure");
}

std::vector<StudyResults::Item> StudyResults::items() {
  std::vector<Item> items;
  const bool known =
      database_.number("SELECT COUNT(*) FROM sqlite_master WHERE name = 'at_once'") > 0;
  Statement statement(
      database_,
      fmt::format("SELECT item, name, policy, budget, block, compression, entries, tokens, state, "
                  "problem, seconds, task, {} FROM items JOIN traces USING (trace) ORDER BY item",
                  known ? "item IN (SELECT item FROM at_once)" : "0"));
  while (statement.next()) {
    Item item{.number = statement.integer(0),
              .task = statement.text(11),
              .trace = statement.text(1),
              .policy = statement.text(2),
              .budget = statement.text(3),
              .block_word = statement.text(4),
              .compression = statement.text(5),
              .entries = statement.integer(6),
              .block = statement.integer(7),
              .state = statement.text(8),
              .problem = statement.text(9),
              .seconds = statement.real(10)};
    item.at_once = item.block_word == "all" || statement.integer(12) != 0;
    items.push_back(std::move(item));
  }
  return items;
}

std::vector<std::string> StudyResults::states() {
  std::vector<std::string> states;
  Statement statement(database_, "SELECT state FROM items ORDER BY item");
  while (statement.next()) states.push_back(statement.text(0));
  return states;
}

void StudyResults::record(const StudyOutcome& outcome) {
  database_.transaction([&] {
    Statement item(database_,
                   "UPDATE items SET state = ?, problem = ?, seconds = ? WHERE item = ?");
    item.bind(0, std::string(outcome.problem.empty() ? "done" : "failed"));
    item.bind(1, outcome.problem).bind(2, outcome.seconds).bind(3, outcome.item).run();
    if (outcome.entries > 0) {
      Statement entries(database_, "UPDATE items SET entries = ? WHERE item = ?");
      entries.bind(0, outcome.entries).bind(1, outcome.item).run();
    }
    if (outcome.at_once) {
      Statement at_once(database_, "INSERT OR IGNORE INTO at_once VALUES (?)");
      at_once.bind(0, outcome.item).run();
    }
    if (const StudyPrompt& prompt = outcome.prompt; !prompt.stored.empty()) {
      Statement stored(database_, "INSERT OR IGNORE INTO prompts (stored) VALUES (?)");
      stored.bind(0, prompt.stored).run();
      Statement of_run(database_,
                       "INSERT OR REPLACE INTO run_prompts SELECT ?, prompt, ?, ? FROM prompts "
                       "WHERE stored = ?");
      of_run.bind(0, outcome.item).bind(1, prompt.expected).bind(2, prompt.answer);
      of_run.bind(3, prompt.stored).run();
    }
    if (!outcome.model.empty()) {
      Statement model(database_,
                      "INSERT OR IGNORE INTO models SELECT trace, ? FROM items WHERE item = ?");
      model.bind(0, outcome.model).bind(1, outcome.item).run();
    }
    if (!outcome.roles.empty()) {
      Statement role(database_,
                     "INSERT OR IGNORE INTO roles SELECT trace, ?, ?, ?, ?, ? FROM items "
                     "WHERE item = ?");
      for (const StudyRole& one : outcome.roles) {
        role.bind(0, one.layer).bind(1, one.head).bind(2, one.query_head);
        role.bind(3, std::string(role_catalog()[static_cast<std::size_t>(one.role)].name));
        role.bind(4, one.value).bind(5, outcome.item).run();
      }
    }
    Statement replay(database_, "INSERT INTO replay_values VALUES (?, ?, ?)");
    Statement head(database_, "INSERT INTO head_values VALUES (?, ?, ?, ?, ?)");
    Statement step(database_, "INSERT INTO step_values VALUES (?, ?, ?, ?, ?, ?)");
    for (const StudyValue& one : outcome.values) {
      Statement& row = one.step >= 0 ? step : one.layer >= 0 ? head : replay;
      row.bind(0, outcome.item).bind(1, one.measure);
      int next = 2;
      if (&row != &replay) {
        row.bind(next, one.layer).bind(next + 1, one.head);
        next += 2;
      }
      if (&row == &step) row.bind(next++, one.step);
      row.bind(next, one.value).run();
    }
  });
}

StudyPrompt StudyResults::prompt(int item) {
  if (!has_table("run_prompts")) return {};
  Statement row(database_,
                "SELECT stored, expected, answer FROM run_prompts JOIN prompts USING (prompt) "
                "WHERE item = ?");
  row.bind(0, item);
  if (!row.next()) return {};
  return {row.text(0), row.text(1), row.text(2)};
}

std::vector<std::string> StudyResults::fingerprints() {
  if (!has_table("run_prompts")) return {};
  return texts_of(database_,
                  "SELECT DISTINCT json_extract(stored, '$.fingerprint') FROM prompts WHERE "
                  "json_valid(stored) AND json_extract(stored, '$.fingerprint') IS NOT NULL");
}

void StudyResults::each_replay_value(
    const std::function<void(int item, int measure, double value)>& take) {
  Statement rows(database_, "SELECT item, measure, value FROM replay_values ORDER BY 1, 2");
  while (rows.next()) take(rows.integer(0), rows.integer(1), rows.real(2));
}

void StudyResults::each_head_value(
    int item, int measure, const std::function<void(int layer, int head, double value)>& take) {
  Statement rows(database_,
                 "SELECT layer, head, value FROM head_values WHERE item = ? AND measure = ? "
                 "ORDER BY 1, 2");
  rows.bind(0, item).bind(1, measure);
  while (rows.next()) take(rows.integer(0), rows.integer(1), rows.real(2));
}

void StudyResults::each_head_value(
    const std::function<void(int item, int measure, int layer, int head, double value)>& take) {
  Statement rows(database_,
                 "SELECT item, measure, layer, head, value FROM head_values ORDER BY 1, 3, 4, 2");
  while (rows.next())
    take(rows.integer(0), rows.integer(1), rows.integer(2), rows.integer(3), rows.real(4));
}

std::optional<double> StudyResults::head_value(int item, int measure, int layer, int head) {
  if (!head_value_) {
    head_value_ = std::make_unique<Statement>(
        database_,
        "SELECT value FROM head_values WHERE item = ? AND measure = ? AND layer = ? AND head = ?");
  }
  head_value_->bind(0, item).bind(1, measure).bind(2, layer).bind(3, head);
  if (!head_value_->next()) return std::nullopt;
  const double value = head_value_->real(0);
  head_value_->next();  // to its end, so that it can be run again
  return value;
}

void StudyResults::each_value(const std::function<void(int item, const StudyValue& value)>& take) {
  // A measure without a value per step has none in step_values: then its heads' values are the
  // finest, and where these were not kept, the replay's.
  Statement rows(database_, R"(
SELECT item, measure, layer, head, step, value FROM step_values
UNION ALL
SELECT item, measure, layer, head, -1, value FROM head_values AS coarse WHERE NOT EXISTS
  (SELECT 1 FROM step_values AS fine WHERE fine.item = coarse.item AND fine.measure = coarse.measure)
UNION ALL
SELECT item, measure, -1, -1, -1, value FROM replay_values AS coarse WHERE NOT EXISTS
  (SELECT 1 FROM step_values AS fine WHERE fine.item = coarse.item AND fine.measure = coarse.measure)
  AND NOT EXISTS
  (SELECT 1 FROM head_values AS fine WHERE fine.item = coarse.item AND fine.measure = coarse.measure)
ORDER BY 1, 2, 3, 4, 5)");
  while (rows.next()) {
    take(rows.integer(0),
         {rows.integer(1), rows.integer(2), rows.integer(3), rows.integer(4), rows.real(5)});
  }
}

}  // namespace kvloupe
