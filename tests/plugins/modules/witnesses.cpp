// Scores of kvloupe written again for the plugin interface, one for each thing that it hands over:
// keys, values, queries, attention rows and sums, what is kept and merged, protection, rotation,
// parameters. tests/plugins/plugin_test.cpp compares them with the program's own.

#include <kvloupe/score.h>

#include <cmath>

namespace {

using namespace kvloupe::plugin;

double product(std::span<const float> a, std::span<const float> b) {
  double sum = 0.0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += double(a[i]) * double(b[i]);
  return sum;
}

/// keydiff: minus the cosine with the mean direction of the cache.
class KeyDiff : public Score {
 public:
  KeyDiff(const Layer&, const Arguments&) {}
  void score(const Step& step, int head, std::span<float> scores) override {
    const Rows keys = step.cache(head).keys();
    std::vector<float> mean(keys.columns());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      const double norm = std::sqrt(product(keys[i], keys[i]));
      for (std::size_t c = 0; c < mean.size(); ++c) mean[c] += float(double(keys[i][c]) / norm);
    }
    const double length = std::sqrt(product(mean, mean));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      scores[i] = float(-product(mean, keys[i]) / length / std::sqrt(product(keys[i], keys[i])));
    }
  }
};

/// h2o: attention summed since an entry came, a merged entry with the sum of its members.
class HeavyHitters : public Score {
 public:
  HeavyHitters(const Layer& layer, const Arguments&)
      : group_(layer.group()), sums_(std::size_t(layer.heads())) {}
  void observe(const Step& step, int head) override {
    std::vector<double>& sums = sums_[std::size_t(head)];
    sums.resize(step.cache(head).size());
    for (int query_head = head * group_; query_head < (head + 1) * group_; ++query_head) {
      const auto more = step.attention_sums(query_head);
      for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += double(more[i]) / group_;
    }
  }
  void score(const Step&, int head, std::span<float> scores) override {
    const std::vector<double>& sums = sums_[std::size_t(head)];
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = float(sums[i]);
  }
  void retain(const Retained& retained, int head) override {
    std::vector<double>& sums = sums_[std::size_t(head)];
    for (const kvloupe_merge& merge : retained.merges()) {
      if (merge.key_changed == 0) continue;
      double together = 0.0;
      for (int i = 0; i < merge.members; ++i) together += sums[std::size_t(merge.from[i])];
      sums[std::size_t(merge.into)] = together;
    }
    retained.keep(sums);
  }

 private:
  int group_;
  std::vector<std::vector<double>> sums_;  // [heads][n]
};

/// snapkv without smoothing: the mean attention of the last queries, which are kept themselves.
class Window : public Score {
 public:
  Window(const Layer& layer, const Arguments& arguments)
      : group_(layer.group()), window_(arguments.count("window")) {}
  Protection protection() const override { return {.last_entries = window_}; }
  void score(const Step& step, int head, std::span<float> scores) override {
    std::vector<double> mean(scores.size());
    for (int query_head = head * group_; query_head < (head + 1) * group_; ++query_head) {
      const Rows rows = step.attention(query_head, window_);
      for (std::size_t r = 0; r < rows.size(); ++r)
        for (std::size_t i = 0; i < mean.size(); ++i)
          mean[i] += double(rows[r][i]) / double(rows.size()) / group_;
    }
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = float(mean[i]);
  }

 private:
  int group_, window_;
};

/// The norm of the value.
class ValueNorm : public Score {
 public:
  ValueNorm(const Layer&, const Arguments&) {}
  void score(const Step& step, int head, std::span<float> scores) override {
    const Rows values = step.cache(head).values();
    for (std::size_t i = 0; i < scores.size(); ++i)
      scores[i] = float(std::sqrt(product(values[i], values[i])));
  }
};

/// One coordinate of the key before RoPE.
class BeforeRope : public Score {
 public:
  BeforeRope(const Layer& layer, const Arguments& arguments)
      : layer_(layer), coordinate_(std::size_t(arguments.count("coordinate"))) {}
  void score(const Step& step, int head, std::span<float> scores) override {
    const Cache cache = step.cache(head);
    for (std::size_t i = 0; i < scores.size(); ++i) {
      const Rows keys = cache.keys();
      std::vector<float> key(keys[i].begin(), keys[i].end());
      layer_.unrotate(cache.tokens()[i], key);
      scores[i] = key[coordinate_];
    }
  }

 private:
  Layer layer_;
  std::size_t coordinate_;
};

/// The product with the step's first query: what queries() hands over.
class FirstQuery : public Score {
 public:
  FirstQuery(const Layer& layer, const Arguments&) : group_(layer.group()) {}
  void score(const Step& step, int head, std::span<float> scores) override {
    const Rows keys = step.cache(head).keys();
    const auto query = step.queries(head * group_)[0];
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = float(product(query, keys[i]));
  }

 private:
  int group_;
};

/// Says what it was given, in the only way a score can.
class Tell : public Score {
 public:
  Tell(const Layer& layer, const Arguments& a)
      : layer_(layer),
        text_("count=" + std::to_string(a.count("count")) + " number=" +
              std::to_string(a.number("number")) + " flag=" + std::to_string(int(a.flag("flag"))) +
              " share=" + std::to_string(a.share("share")) + " word=" + a.text("word") +
              " text=" + a.text("text")) {}
  void score(const Step& step, int head, std::span<float>) override {
    const Cache cache = step.cache(head);
    std::string roles;
    for (std::size_t i = 0; i < cache.size(); ++i) {
      roles += cache.is_protected(i) ? (cache.is_new(i) ? 'B' : 'P') : cache.is_new(i) ? 'N' : '.';
    }
    throw std::runtime_error(
        text_ + " layer=" + std::to_string(layer_.number()) + "/" +
        std::to_string(layer_.layers()) + " heads=" + std::to_string(layer_.heads()) + "/" +
        std::to_string(layer_.query_heads()) + " d=" + std::to_string(layer_.head_dim()) +
        " budget=" + std::to_string(layer_.budget()) + "/" + std::to_string(step.budget()) +
        " block=" + std::to_string(step.first_new()) + "-" + std::to_string(step.end_new()) +
        " roles=" + roles);
  }

 private:
  Layer layer_;
  std::string text_;
};

}  // namespace

KVLOUPE_POLICY_PLUGIN("witnesses", list) {
  const char* source = "a witness of kvloupe's tests";
  list.add<KeyDiff>({.name = "w_keydiff",
                     .summary = "keydiff again",
                     .formula = "-cos(mean direction, k_i)",
                     .source = source,
                     .parallel_heads = true});
  list.add<HeavyHitters>({.name = "w_h2o",
                          .summary = "h2o again",
                          .formula = "the attention received",
                          .source = source,
                          .scale = KVLOUPE_COMMON,
                          .reads_queries = true});
  list.add<Window>({.name = "w_window",
                    .summary = "snapkv again",
                    .formula = "the mean of the last rows",
                    .source = source,
                    .scale = KVLOUPE_ATTENTION,
                    .reads_queries = true,
                    .parallel_heads = true,
                    .parameters = {count("window", 4, 1, 1000, "rows of attention")}});
  list.add<ValueNorm>({.name = "w_valuenorm",
                       .summary = "large values",
                       .formula = "||v_i||",
                       .source = source,
                       .scale = KVLOUPE_PER_HEAD,
                       .reads_values = true});
  list.add<BeforeRope>({.name = "w_before_rope",
                        .summary = "a coordinate before RoPE",
                        .formula = "one number of k_i",
                        .source = source,
                        .parameters = {count("coordinate", 0, 0, 1000, "which")}});
  list.add<FirstQuery>({.name = "w_first_query",
                        .summary = "the product with a query",
                        .formula = "q . k_i",
                        .source = source,
                        .reads_queries = true});
  list.add<Tell>({.name = "w_tell",
                  .summary = "says what it was given",
                  .formula = "none",
                  .source = source,
                  .differences = "none known",
                  .example = "w_tell(5)",
                  .parameters = {count("count", 2, 0, 9, "a count"),
                                 number("number", 0.5, 0.0, 1.0, "a number"),
                                 flag("flag", false, "a flag"), share("share", 10.0, "a share"),
                                 word("word", "one", {"one", "two"}, "a word"),
                                 text("text", "some text", "a text")}});
}
