#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "analysis/math/rope.h"
#include "analysis/plugin/kvloupe/policy_plugin.h"
#include "analysis/policy/kit/stages.h"

namespace kvloupe {

/// The part of a plugin's description of one score that the score's objects need.
struct PluginScoreType {
  std::string file;  // the plugin's, for messages
  std::string name;
  kvloupe_score functions = {};  // flags, scale, context and the functions; its pointers are unset
};

/// Calls a function of a plugin with room for its line. Empty, or what went wrong: the line, or
/// what it threw. Throws Cancelled alone.
std::string problem_in(const std::function<std::int32_t(char* error)>& function);

/// A score of a plugin as one of kvloupe's: hands the states over in the form of the interface, and
/// checks the results. Every problem is a FileError that names the plugin's file, the score, layer,
/// head and step.
class PluginScore : public Score {
 public:
  /// `values` in the order of the score's parameters; borrowed during the call.
  PluginScore(std::shared_ptr<const PluginScoreType> type, const LayerContext& context,
              const std::vector<kvloupe_value>& values);
  ~PluginScore() override;
  PluginScore(const PluginScore&) = delete;
  PluginScore& operator=(const PluginScore&) = delete;

  void observe(const StepView& view, int head) override;
  void prepare(const StepView& view, int budget) override;
  std::vector<float> score(const StepView& view, int head) override;
  Protection protection() const override;
  void set_protection(const Protection& protection) override { protection_ = protection; }
  void retain(const StepView& view, int head, const HeadDecision& decision) override;
  bool needs_values() const override { return has(KVLOUPE_READS_VALUES); }

 private:
  bool has(std::uint32_t flag) const { return (type_->functions.flags & flag) != 0; }
  /// The step in the form of the interface. Made once, by the first call of a step.
  kvloupe_step step_of(const StepView& view);
  /// Runs a function of the plugin, one at a time unless it allows more.
  void call(const std::string& where, const std::function<std::int32_t(char* error)>& function);
  std::string at(int head) const;
  [[noreturn]] void fail(const std::string& where, const std::string& what) const;
  static std::int32_t unrotate(const kvloupe_layer* layer, std::int32_t token, float* row,
                               char* error);

  std::shared_ptr<const PluginScoreType> type_;
  ModelInfo model_;
  kvloupe_layer layer_ = {};
  kvloupe_protection own_protection_ = {};
  Protection protection_;  // of all parts
  void* object_ = nullptr;
  mutable std::once_flag rope_made_;
  mutable std::optional<Rope> rope_;

  std::mutex one_call_;
  std::mutex making_;  // guards what follows
  bool made_ = false;
  kvloupe_step step_ = {};
  std::vector<kvloupe_cache> caches_;             // [Hk]
  std::vector<kvloupe_rows> queries_;             // [Hq]
  std::vector<std::vector<std::uint8_t>> roles_;  // [Hk][n]
};

}  // namespace kvloupe
