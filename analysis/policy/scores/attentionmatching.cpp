// attentionmatching: fewer entries with a log-bias and a value that match the attention to all.

#include <cmath>
#include <limits>
#include <memory>

#include "analysis/math/attention_matching.h"
#include "analysis/policy/kit/probe_tables.h"
#include "analysis/policy/kit/seen_queries.h"
#include "analysis/policy/scores/scores.h"

namespace kvloupe::policies {

namespace {
const double kLeastWeight = std::log(1e-12);  // the authors' where they state no bound

/// Everything that its parameters say.
struct MatchingRule {
  explicit MatchingRule(const SpecPart& part)
      : pursuit(part.word("keys") == "omp"),
        by(part.word("by") == "max"    ? KeyMeasure::max
           : part.word("by") == "mean" ? KeyMeasure::mean
                                       : KeyMeasure::rms),
        refits(part.word("values") == "refit"),
        latest(part.word("queries") == "context" ? part.number("latest") : 1.0),
        ridge(part.number("ridge")) {
    const auto or_else = [&](const char* name, double of_word) {
      const double* given = std::get_if<double>(&part.argument(name));
      return given != nullptr ? *given : of_word;
    };
    bias = {part.word("bias") == "fit", or_else("least", pursuit ? kLeastWeight : -3.0),
            or_else("largest", pursuit ? 7.0 : 3.0),
            static_cast<int>(or_else("steps", pursuit ? 0.0 : 2.0))};
    of_pursuit = {0, part.count("pick"), part.count("refit"),
                  or_else("drop", -std::numeric_limits<double>::infinity()), bias};
    of_pursuit.bias.fitted = true;
  }

  bool pursuit;
  KeyMeasure by;
  bool refits;
  double latest;  // share of the held queries that are read
  double ridge;
  BiasFit bias;
  PursuitRule of_pursuit;
};

/// The reference queries of a layer, and how its heads attend.
class Reference {
 public:
  Reference(SpecPart part, LayerContext context)
      : part_(std::move(part)),
        context_(std::move(context)),
        rule_(part_),
        queries_(context_.model, part_.count("most")) {}

  const MatchingRule& rule() const { return rule_; }
  void observe(const StepView& view, int head) {
    if (part_.word("queries") == "context") queries_.observe(view, head);
  }
  /// Reads the probe, once.
  void prepare() {
    if (part_.word("queries") == "context" || read_) return;
    const LayerProbe probe = probe_tables(part_, context_).states(part_, context_.layer);
    for (int query_head = 0; query_head < context_.model.num_heads; ++query_head) {
      queries_.take(query_head, probe.queries[static_cast<std::size_t>(query_head)]);
    }
    read_ = true;
  }
  ReferenceAttention attention(const CacheView& cache, int head) const {
    const int group = context_.model.group_size();
    std::vector<LogitRule> rules;
    for (int i = 0; i < group; ++i) rules.push_back(context_.attention.of(head * group + i));
    return {queries_.of(head, rule_.latest), rules, cache.keys, cache.log_sizes, rule_.ridge};
  }

 private:
  SpecPart part_;
  LayerContext context_;
  MatchingRule rule_;
  ReferenceQueries queries_;
  bool read_ = false;
};

class Refitting : public Merging {
 public:
  explicit Refitting(std::shared_ptr<const Reference> reference)
      : reference_(std::move(reference)) {}

  std::vector<Merge> gifts(const StepView& view, int head, const HeadDecision& decision) override {
    const CacheView& cache = view.caches[static_cast<std::size_t>(head)];
    const MatchingRule& rule = reference_->rule();
    const MatchedEntries matched =
        reference_->attention(cache, head).fit(decision.kept, cache.values, rule.bias);
    std::vector<Merge> result(decision.kept.size());
    for (std::size_t i = 0; i < result.size(); ++i) {
      const std::int32_t row = decision.kept[i];
      const auto value = rule.refits ? view_of(matched.values, i) : view_of(cache.values, row);
      result[i] = {row, {row}, {1.0F}, 1.0F, {}, matched.biases[i], value};
    }
    return result;
  }

 private:
  template <typename Rows, typename Index>
  static std::vector<float> view_of(const Rows& rows, Index index) {
    const float* begin = rows.data() + static_cast<Eigen::Index>(index) * rows.outerStride();
    return {begin, begin + rows.cols()};
  }

  std::shared_ptr<const Reference> reference_;
};

class MatchingScore : public Score {
 public:
  MatchingScore(const SpecPart& part, const LayerContext& context)
      : reference_(std::make_shared<Reference>(part, context)) {}
  MatchingScore(const MatchingScore& other)
      : Score(other),
        reference_(std::make_shared<Reference>(*other.reference_)),
        budget_(other.budget_) {}

  void observe(const StepView& view, int head) override { reference_->observe(view, head); }
  void prepare(const StepView& /*view*/, int budget) override {
    budget_ = budget;
    reference_->prepare();
  }
  std::vector<float> score(const StepView& view, int head) override {
    const ReferenceAttention attention =
        reference_->attention(view.caches[static_cast<std::size_t>(head)], head);
    const MatchingRule& rule = reference_->rule();
    PursuitRule pursuit = rule.of_pursuit;
    pursuit.picks = budget_;
    const std::vector<double> scores =
        rule.pursuit ? attention.pursuit(pursuit) : attention.measure(rule.by);
    return {scores.begin(), scores.end()};
  }
  std::unique_ptr<Merging> merging() override { return std::make_unique<Refitting>(reference_); }

 private:
  std::shared_ptr<Reference> reference_;
  int budget_ = 0;
};

ParameterInfo word(const char* name, std::vector<std::string> words, const char* meaning) {
  const std::string first = words.front();
  return word_parameter(name, first, std::move(words), meaning);
}

ParameterInfo count(const char* name, double value, double least, double most,
                    const char* meaning) {
  return count_parameter(name, value, least, most, meaning);
}
}  // namespace

void attentionmatching(PolicyEntry& entry) {
  entry.summary = "fewer entries with a log-bias and a refitted value match the attention to all";
  entry.traits.makes_entries = true;
  entry.traits_by_arguments = [](const SpecPart& part, PolicyTraits& traits) {
    if (part.word("queries") == "context") return;
    traits.reads_queries = false;
    traits.reads_probe = traits.reads_sequence = true;
  };
  entry.formula =
      "score_i = root mean square over the reference queries q of A_qi; keys=omp: picks by argmax "
      "of sum_q E_qi r_q, r: what the picks leave of sum_j E_qj, E: A before its division. What "
      "stays keeps its key and gets a log-bias ln B, B = min ||E_S B - E 1||, and a value, C = min "
      "||A_S C - A V||, A_S: attention to what stays, with the biases";
  entry.source = "Attention Matching (Zweiger et al., 2026, arXiv 2602.16284)";
  entry.needs =
      "values, the queries so far; queries=repeat: those of a probe (kvloupe-capture run --probe "
      "repeat) instead";
  entry.work =
      "2 r n d operations for r reference queries and t^2 r + t^3 for t entries that stay, at "
      "every step that evicts; keys=omp: another r n per round of picks. A model that writes "
      "evicts at every token: add every(64)";
  entry.differences =
      "the authors compress a prompt once; here every step that evicts matches the cache as it "
      "then is, with earlier biases and values, and refits a bias as a whole. They take up to 50 "
      "000 queries of a key-value head (most), all of the context's (latest=1; most come before "
      "most entries), and least squares without a ridge (ridge=1e-10). Entries that a modifier "
      "protects are refitted too; theirs are not. On a document of SmolLM2-135M (25 %, layers 2, "
      "14 "
      "and 26) the mean perturbation of the last query is 136 with both, 5.5 with the defaults, "
      "5.6 "
      "for the same entries unchanged, 10.4 for h2o. The authors' step size starts from a random "
      "vector, here from ones. Queries of self-study and the order of layers on policy are not "
      "here";
  entry.parameters = {
      word("keys", {"highest", "omp"},
           "highest: the entries with the most attention; omp: orthogonal matching pursuit of the "
           "sums"),
      word("queries", {"context", "repeat"},
           "context: the latest of the queries so far; repeat: those of a probe, which repeats the "
           "context"),
      word("by", {"rms", "mean", "max"}, "keys=highest: over the reference queries"),
      word("bias", {"fit", "zero"}, "zero: entries keep the logits of their keys"),
      word("values", {"refit", "keep"}, "keep: entries keep their values"),
      number_or_word_parameter("least", std::string("auto"), -50, 50, {"auto"},
                               "the least log-bias; auto: -3, with keys=omp ln 1e-12"),
      number_or_word_parameter("largest", std::string("auto"), -50, 50, {"auto"},
                               "the largest log-bias; auto: 3, with keys=omp 7"),
      number_or_word_parameter(
          "steps", std::string("auto"), 0, 100000, {"auto"},
          "steps of projected gradient after least squares were clamped; auto: 2, with keys=omp "
          "0"),
      count("pick", 1.0, 1, 1024, "keys=omp: entries picked for one residual"),
      count("refit", 1.0, 1, 1024, "keys=omp: biases are fitted after so many rounds of picks"),
      number_or_word_parameter(
          "drop", -7.0, -50, 50, {"none"},
          "keys=omp: picks with a smaller log-bias are replaced, up to three times"),
      count("most", 4096.0, 1, 1000000,
            "the most queries that a key-value head holds: every second, fourth, ... so far"),
      number_parameter(
          "latest", 0.05, 0.001, 1,
          "queries=context: this share of the queries that are held, the latest. Earlier "
          "queries come before most entries, and no later query looks at entries so"),
      number_parameter(
          "ridge", ReferenceAttention::kRidge, 0, 1,
          "relative to the mean squared length of a column of least squares: pulls weights "
          "and values to those that the entries had")};
  entry.variants = {{"the authors' AM-HighestAttnKeys, queries of the context",
                     "attentionmatching(latest=1,ridge=1e-10)"},
                    {"the authors' AM-OMP, queries of the context",
                     "attentionmatching(keys=omp,latest=1,ridge=1e-10)"},
                    {"the authors' AM-OMP-fast, queries of the context",
                     "attentionmatching(keys=omp,pick=4,refit=2,latest=1,ridge=1e-10)"},
                    {"the authors' queries of a repeated prompt",
                     "attentionmatching(queries=repeat,ridge=1e-10)"}};
  entry.builder = ScoreBuilder{made_of<MatchingScore>, ScoreScale::common};
  entry.refusal = [](const SpecPart& part, const PolicySpec& spec) -> std::string {
    for (const SpecPart& other : spec.parts) {
      if (find_policy(other.name)->as<MergingBuilder>() != nullptr) {
        return "it makes the values of what stays itself; remove " + other.name;
      }
    }
    const MatchingRule rule(part);
    return rule.bias.least > rule.bias.largest ? "least exceeds largest; exchange them" : "";
  };
  entry.notes =
      always("the bound of the perturbation does not hold for a cache with synthetic entries");
}

}  // namespace kvloupe::policies
