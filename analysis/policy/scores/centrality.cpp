// centrality: keys that are important, or similar to keys that are.

#include <cmath>

#include "analysis/policy/kit/score_values.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
class CentralityScore : public Score {
 public:
  explicit CentralityScore(const SpecPart& part) : part_(part) {}

  Protection protection() const override {
    return {.sink_tokens = part_.count("sinks"), .window = part_.count("recent")};
  }

  std::vector<float> score(const StepView& view, int head) override {
    const MatrixView& keys = view.caches[static_cast<std::size_t>(head)].keys;
    Eigen::MatrixXd unit = keys.cast<double>();
    const Eigen::VectorXd lengths = unit.rowwise().norm();
    for (Eigen::Index i = 0; i < unit.rows(); ++i) unit.row(i) /= std::max(lengths[i], 1e-8);
    Eigen::VectorXd base = Eigen::VectorXd::Constant(keys.rows(), 1.0);
    if (part_.word("base") == "keynorm")
      base = (-(lengths.array() - lengths.minCoeff()) / part_.number("temperature")).exp();
    base /= base.sum();
    Eigen::VectorXd centrality = base;
    const double damping = part_.number("damping");
    for (int step = 0; step < part_.count("steps"); ++step) {
      // (1 + cos)/2 of all pairs times the vector, without the matrix of pairs.
      const Eigen::VectorXd along = unit.transpose() * centrality;
      Eigen::VectorXd passed = (0.5 * (unit * along)).array() + 0.5 * centrality.sum();
      passed /= passed.cwiseAbs().sum() + 1e-8;
      centrality = damping * passed + (1.0 - damping) * base;
    }
    std::vector<double> scores(centrality.data(), centrality.data() + centrality.size());
    return to_float(scores);
  }

 private:
  SpecPart part_;
};
}  // namespace

void centrality(PolicyEntry& entry) {
  entry.summary = "keys that are important by themselves, or similar to keys that are";
  entry.traits.reads_queries = false;
  entry.formula =
      "c <- damping A c / Σ A c + (1 - damping) p, A_ij = (1 + cos(k_i, k_j))/2, p: softmax of "
      "-‖k_i‖ / temperature, which c begins with; score_i = c_i after these steps";
  entry.source = "CentralityPress, a press beside kvpress (lapidoty/kvpress-centrality, 2026)";
  entry.needs = "keys";
  entry.work = "2 n d operations per step of c and head; the matrix A is never formed";
  entry.differences =
      "the press takes any other press for p; here its default, the key norm, or equal shares "
      "(base=uniform)";
  entry.parameters = {
      number_parameter("damping", 0.15, 0, 1, "weight of what similar keys pass on; 0: p alone"),
      count_parameter("steps", 3.0, 0, 1000, "how often c is computed again"),
      number_parameter("temperature", 1.0, 0.001, 1e6, "of the softmax in p"),
      word_parameter("base", "keynorm", {"keynorm", "uniform"},
                     "what p is made of: the keys' lengths, or nothing"),
      count_parameter("sinks", 4.0, 0, 1e6, "first tokens that are always kept"),
      count_parameter("recent", 8.0, 0, 1e6, "last entries that are always kept")};
  entry.own_protection = protects("sinks", "recent");
  entry.builder = ScoreBuilder{made_of<CentralityScore>, ScoreScale::common};
}

}  // namespace kvloupe::policies
