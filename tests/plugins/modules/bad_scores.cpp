// Scores that fail while they score, each in its own way.

#include <kvloupe/score.h>

#include <limits>

namespace {

using namespace kvloupe::plugin;

/// Fills the scores with the tokens' indices; the others fail on top of it.
class Good : public Score {
 public:
  Good(const Layer& layer, const Arguments&) : layer_(layer) {}
  void score(const Step& step, int head, std::span<float> scores) override {
    for (std::size_t i = 0; i < scores.size(); ++i) scores[i] = float(step.cache(head).tokens()[i]);
  }

 protected:
  Layer layer_;
};

class Throws : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int head, std::span<float> scores) override {
    if (layer_.number() == 1 && head == 1 && step.number() == 2)
      throw std::runtime_error("the table\nis too small");
    Good::score(step, head, scores);
  }
};

class ThrowsInObserve : public Good {
 public:
  using Good::Good;
  void observe(const Step&, int) override { throw 7; }
};

class ThrowsInRetain : public Good {
 public:
  using Good::Good;
  void retain(const Retained&, int) override { throw std::runtime_error("nothing to forget"); }
};

class ThrowsWhenMade : public Good {
 public:
  ThrowsWhenMade(const Layer& layer, const Arguments& arguments) : Good(layer, arguments) {
    if (layer.number() == 1) throw std::runtime_error("no such layer in my table");
  }
};

class NotANumber : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int head, std::span<float> scores) override {
    Good::score(step, head, scores);
    if (layer_.number() == 1 && head == 0) scores[3] = std::numeric_limits<float>::quiet_NaN();
  }
};

class FillsHalf : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int head, std::span<float> scores) override {
    Good::score(step, head, scores.first(0));
  }
};

class Negative : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int head, std::span<float> scores) override {
    Good::score(step, head, scores);
    scores[2] = -1.0F;
  }
};

class ReadsWhatItDidNotAskFor : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int head, std::span<float>) override { step.attention(head, 1); }
};

class AsksForAHeadThatIsNot : public Good {
 public:
  using Good::Good;
  void score(const Step& step, int, std::span<float>) override { step.attention(99, 1); }
};

class ProtectsLessThanNothing : public Good {
 public:
  using Good::Good;
  Protection protection() const override { return {.last_entries = -1}; }
};

}  // namespace

KVLOUPE_POLICY_PLUGIN("bad scores", list) {
  const auto named = [](const char* name) {
    Info info;
    info.name = name;
    info.summary = "fails";
    info.formula = "none";
    info.source = "kvloupe's tests";
    return info;
  };
  list.add<Good>(named("b_good"));
  list.add<Throws>(named("b_throws"));
  list.add<ThrowsInObserve>(named("b_observe"));
  list.add<ThrowsInRetain>(named("b_retain"));
  list.add<ThrowsWhenMade>(named("b_made"));
  list.add<NotANumber>(named("b_nan"));
  list.add<FillsHalf>(named("b_half"));
  Info negative = named("b_negative");
  negative.scale = KVLOUPE_COMMON;
  list.add<Negative>(negative);
  list.add<ReadsWhatItDidNotAskFor>(named("b_reads"));
  Info asks = named("b_asks");
  asks.reads_queries = true;
  list.add<AsksForAHeadThatIsNot>(asks);
  list.add<ProtectsLessThanNothing>(named("b_protects"));
}
