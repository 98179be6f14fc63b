#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "analysis/study/database.h"
#include "analysis/study/study_plan.h"
#include "analysis/study/study_work.h"

namespace kvloupe {

/// Whether a file begins as the results of a study do; StudyResults checks the rest.
bool is_study_results(const std::filesystem::path& path);

/// The results file of a study: what was asked for, its items, and their values, a table for each
/// kind (docs/studies.md describes them). An item and its values are written in one transaction.
class StudyResults final : public OutcomeStore {
 public:
  /// Opens an existing file for reading. Throws FileError: missing, another kind of file, written
  /// by another version, damaged.
  explicit StudyResults(const std::filesystem::path& path);
  /// The same for a file that this program has checked before: not once more, which reads it all.
  struct Checked {};
  StudyResults(const std::filesystem::path& path, Checked checked);
  /// Opens the results of this study to go on, or makes the file. A study with more policies,
  /// budgets, blocks, traces or prompts than the file's takes over what is there. Throws FileError
  /// as above, and where the file holds another study or a trace has changed since, and names the
  /// difference.
  StudyResults(const std::filesystem::path& path, const Study& study, const StudyPlan& plan);
  /// The same of a study without a file: by the settings that results depend on, each with its name
  /// in a message about a change, and the names of the measures.
  using Settings = std::vector<std::pair<std::string, std::string>>;
  StudyResults(const std::filesystem::path& path, const Settings& settings,
               const std::vector<std::string>& measures, const StudyPlan& plan);
  /// Opens results to which others are to be joined, or makes the file with the study of another
  /// results file, all of whose items wait.
  struct Like {
    std::filesystem::path path;
  };
  StudyResults(const std::filesystem::path& path, const Like& like);

  /// An item as the file has it.
  struct Item {
    int number = 0;
    std::string task;  // kReplayTask, or what was run in the model
    std::string trace, policy, budget, block_word, compression;
    int entries = 0, block = 0;  // 0: not known yet
    std::string state;           // waiting, done, failed
    std::string problem;         // of a failed one
    double seconds = 0.0;
    bool at_once = false;  // done, and the policy acted once on the whole prompt or its context
  };
  std::vector<Item> items();  // in the order of their numbers
  std::vector<std::string> states() override;
  std::vector<std::string> measures();
  std::string setting(const std::string& name);
  Settings settings();  // by name
  /// The name of the folder or file of the model that runs use; empty: a study of replays alone.
  std::string model_name();

  /// Writes an item's values and that it is done, or its problem.
  void record(const StudyOutcome& outcome) override;
  /// The prompt of an item that ran in the model; an empty one of a replay, and of results of
  /// earlier versions, which kept none.
  StudyPrompt prompt(int item);
  /// The fingerprints of the models that ran the prompts, each once. A whole study has at most one.
  std::vector<std::string> fingerprints();
  /// Takes the items that are done in another results file of the same study and not here, with
  /// their values, and the problems of those that wait here and failed there; all or nothing.
  /// Throws FileError where it is of another study.
  void take(const std::filesystem::path& part);

  /// The roles of the query heads of one layer's head, by trace, query head and role; nothing in
  /// files of earlier versions, and where the study measures no role.
  struct Role {
    std::string trace;
    int query_head = 0;
    int role = 0;  // index into role_catalog()
    double value = 0.0;
  };
  std::vector<Role> roles(int layer, int head);
  /// The models that made the traces of replays that are done, as (fingerprint, a trace of it), in
  /// the order of the traces; nothing in files of earlier versions.
  std::vector<std::pair<std::string, std::string>> models();
  /// The fingerprint of the model that made a trace; empty: not known.
  std::string model_of(const std::string& trace);
  /// Throws FileError where the prompts ran in several models, or the traces are of several: no
  /// mean over them is about one model.
  void require_one_model();
  /// The identity (Trace::identity()) of a trace when the study began; empty: not known.
  std::string trace_identity(const std::string& name);
  /// The folders of the study files with which the file was written, from the file's own folder.
  std::vector<std::string> study_folders();
  /// Whether the file holds this study: the same settings, whichever version wrote them. Traces and
  /// prompts that have changed since do not count.
  bool is_of(const Study& study);

  /// One value per measure and item that is done: the mean over the heads.
  void each_replay_value(const std::function<void(int item, int measure, double value)>& take);
  /// The values by head that an item has of a measure, by layer and head; head −1: of the layer.
  void each_head_value(int item, int measure,
                       const std::function<void(int layer, int head, double value)>& take);
  /// The same of all items and measures, by item, layer, head and measure.
  void each_head_value(
      const std::function<void(int item, int measure, int layer, int head, double value)>& take);
  /// The value of one head; nothing where the file has none.
  std::optional<double> head_value(int item, int measure, int layer, int head);
  /// The finest values that were kept of each measure (Reduce), by item, measure, layer, head,
  /// step.
  void each_value(const std::function<void(int item, const StudyValue& value)>& take);

 private:
  void check_kind();
  bool has_table(const char* name);
  void check_whole();
  static Database writable(const std::filesystem::path& path);
  void make_tables();
  void add_tables();
  void add_study_folder(const std::filesystem::path& folder);
  void check_same_study(const std::string& part);
  std::vector<long> places_of_sources(const StudyPlan& plan);  // −1: not in the plan
  std::vector<long> places_of_items(const StudyPlan& plan, const std::vector<long>& sources);
  static bool may_grow(const std::string& name, const std::string& before, const std::string& now);
  void grow(const Settings& settings, const StudyPlan& plan, const std::vector<long>& sources,
            const std::vector<long>& places);
  void add_plan(const StudyPlan& plan);
  void create(const Settings& settings, const std::vector<std::string>& measures,
              const StudyPlan& plan);
  void check_same(const Settings& settings, const std::vector<std::string>& new_measures,
                  const StudyPlan& plan);

  std::string path_;
  Database database_;
  std::unique_ptr<Statement> head_value_;  // prepared once: it is asked for many times
};

}  // namespace kvloupe
