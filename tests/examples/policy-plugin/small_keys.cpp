// smallkeys: a policy as a shared library. Entries with small keys are kept.

#include <kvloupe/score.h>

#include <cmath>

namespace {

using namespace kvloupe::plugin;

class SmallKeys : public Score {
 public:
  SmallKeys(const Layer&, const Arguments& arguments) : power_(arguments.number("power")) {}

  /// -‖k_i‖^power
  void score(const Step& step, int head, std::span<float> scores) override {
    const Rows keys = step.cache(head).keys();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      double sum = 0.0;
      for (const float x : keys[i]) sum += double(x) * double(x);
      scores[i] = static_cast<float>(-std::pow(sum, 0.5 * power_));
    }
  }

 private:
  double power_;
};

}  // namespace

KVLOUPE_POLICY_PLUGIN("small keys", plugin) {
  plugin.add<SmallKeys>(
      {.name = "smallkeys",
       .summary = "keeps entries with small keys",
       .formula = "score_i = -||k_i||^power",
       .source = "Devoto et al., A Simple and Effective L2 Norm-Based Strategy",
       .cost = "n d products",
       .parameters = {number("power", 1.0, 0.1, 4.0, "the exponent of the norm")}});
}
