#include "app/trace_page/page_data.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>

#include "analysis/error.h"
#include "analysis/measure/measure_catalog.h"
#include "analysis/measure/shared_measures.h"
#include "analysis/metric/attention.h"
#include "analysis/metric/pca.h"
#include "analysis/record/layer_states.h"
#include "analysis/replay/layer_replay.h"
#include "analysis/replay/replay.h"
#include "analysis/replay/sweep.h"
#include "analysis/replay/typed_values.h"
#include "analysis/trace/given_tokens.h"

namespace kvloupe::trace_page {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kStatesKept = std::size_t{512} << 20U;
constexpr std::size_t kScoresAtOnce = std::size_t{256} << 20U;  // bytes of a replay's scores
constexpr int kMostRows = 96;                                   // of attention, beside the blocks'
constexpr float kWide = 100.0F;  // a wider range of scores of one sign has a scale of logarithms

std::size_t at(int index) { return static_cast<std::size_t>(index); }

/// Little-endian numbers one after the other.
class ByteList {
 public:
  void add(std::uint32_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) data += static_cast<char>(value >> (8 * i) & 0xFFU);
  }
  void add(float value) { add(std::bit_cast<std::uint32_t>(value), 4); }
  std::string data;
};

std::string deflated(const std::string& bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  constexpr int kLevel = 9;
  if (compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()),
                kLevel) != Z_OK)
    throw WorkError("the page's numbers cannot be compressed: there is not enough memory");
  out.resize(size);
  return out;
}

/// In 255ths of the range from `low` to `high`.
std::uint32_t byte_of(float value, float low, float high) {
  if (!(high > low)) return 0;
  return static_cast<std::uint32_t>(std::lround(
      255.0 *
      std::clamp(static_cast<double>(value - low) / static_cast<double>(high - low), 0.0, 1.0)));
}

/// How a head's scores become bytes: 0 is no score, 1 to 255 even steps of the score or, over a
/// wide range of one sign, of its logarithm.
struct ScoreScale {
  float low = 0.0F, high = 0.0F, sign = 0.0F;  // 0: even steps of the score itself

  static ScoreScale of(const std::vector<float>& scores) {
    ScoreScale scale{std::numeric_limits<float>::max(), std::numeric_limits<float>::lowest()};
    float least = std::numeric_limits<float>::max();  // distance from 0 of those that are not 0
    for (const float score : scores) {
      if (!std::isfinite(score)) continue;
      scale.low = std::min(scale.low, score);
      scale.high = std::max(scale.high, score);
      if (score != 0.0F) least = std::min(least, std::abs(score));
    }
    if (scale.low > scale.high) return {};
    const float most = std::max(std::abs(scale.low), std::abs(scale.high));
    if (scale.low * scale.high >= 0.0F && most > kWide * least)
      return {std::log(least), std::log(most), scale.low < 0.0F ? -1.0F : 1.0F};
    return scale;
  }
  std::uint32_t code(float score) const {
    if (!std::isfinite(score)) return 0;
    const float value = sign == 0.0F ? score : score == 0.0F ? low : std::log(std::abs(score));
    return 1 + byte_of(value, low, high) * 254 / 255;
  }
};

class DataMaker {
 public:
  DataMaker(const Trace& trace, const PageRequest& request, const PagePlan& plan,
            Progress& progress, const std::function<void(const std::string&)>& say)
      : trace_(trace),
        request_(request),
        progress_(progress),
        say_(say),
        heads_(plan.heads),
        blocks_(replay_blocks(trace, request.block, request.compression)),
        rows_(read_rows(trace, blocks_)),
        scores_room_(std::max(kUsualBytes, plan.bytes / 4)) {
    for (const auto& [layer, head] : heads_)
      if (layers_.empty() || layers_.back() != layer) layers_.push_back(layer);
    for (const Measure& measure : all_measures()) {
      const auto usual = usual_measures(trace);
      if (!measure.info->label.empty() ||
          std::find(usual.begin(), usual.end(), measure.info->name) != usual.end())
        measures_.push_back(&measure);
    }
    const std::size_t settings = request.policies.size() * request.budgets.size();
    progress_.set_total(static_cast<long>((settings + 1) * layers_.size()));
  }

  PageData make() {
    read_states();
    replay_all();
    data_.about["heads"] = heads_;
    data_.about["rows"] = rows_;
    data_.about["wide"] = blocks_.size() > 254;
    Json steps = Json::array();
    for (const Block& block : blocks_) steps.push_back({block.first, block.end});
    data_.about["steps"] = std::move(steps);
    data_.about["problems"] = problems_;
    return std::move(data_);
  }

 private:
  void add(const std::string& name, const std::string& bytes) {
    data_.sections.emplace_back(name, deflated(bytes));
  }
  void leave_out(const std::string& line) {
    problems_.push_back(line);
    if (say_) say_(line);
  }

  /// Keys and attention. A layer whose states are damaged is left out.
  void read_states() {
    ByteList ranges, points, tokens, shares;
    std::vector<std::pair<int, int>> whole;
    std::exception_ptr first;
    const int width = trace_.length() > 0xFFFF ? 4 : 2;
    for (const int layer : layers_) {
      try {
        const auto states = states_.get(trace_, layer, StateParts{}, progress_);
        for (const auto& head : heads_) {
          if (head.first != layer) continue;
          add_keys(states->keys[at(head.second)], ranges, points);
          add_reads(*states, layer, head.second, width, tokens, shares);
          whole.push_back(head);
        }
      } catch (const Cancelled&) {
        throw;
      } catch (const std::exception& error) {
        if (!first) first = std::current_exception();
        leave_out("layer " + std::to_string(layer) + " is left out: " + error.what());
      }
      progress_.advance();
    }
    if (whole.empty()) std::rethrow_exception(first);
    heads_ = whole;
    std::erase_if(layers_, [&](int layer) {
      return std::none_of(heads_.begin(), heads_.end(),
                          [&](const auto& head) { return head.first == layer; });
    });
    add("keys", ranges.data + points.data);
    add("attention", tokens.data + shares.data);
  }

  static void add_keys(const Matrix& keys, ByteList& ranges, ByteList& points) {
    const PrincipalComponents components = fit_principal_components(view(keys));
    const Matrix places = components.project(view(keys));
    for (int c = 0; c < 2; ++c) {
      const float low = places.col(c).minCoeff(), high = places.col(c).maxCoeff();
      ranges.add(low);
      ranges.add(high);
      ranges.add(static_cast<float>(components.explained[c]));
      for (Eigen::Index t = 0; t < places.rows(); ++t)
        points.add(byte_of(places(t, c), low, high), 1);
    }
  }

  /// The tokens that each row reads most, mean over the head's query heads.
  void add_reads(const LayerStates& states, int layer, int head, int width, ByteList& tokens,
                 ByteList& shares) {
    const ModelInfo& model = trace_.layer_model(layer);
    const LayerAttention attention = trace_.attention(layer);
    const int group = model.group_size();
    for (const int row : rows_) {
      progress_.check();
      Eigen::VectorXf mean = Eigen::VectorXf::Zero(row + 1);
      for (int q = head * group; q < (head + 1) * group; ++q) {
        mean += attention_rows(rows(view(states.queries[at(q)]), row, 1),
                               rows(view(states.keys[at(head)]), 0, row + 1), attention.of(q),
                               model.reach())
                    .row(0)
                    .transpose() /
                static_cast<float>(group);
      }
      std::vector<int> most(at(row) + 1);
      for (int t = 0; t <= row; ++t) most[at(t)] = t;
      const auto shown = std::min<std::ptrdiff_t>(kMostReads, row + 1);
      std::partial_sort(most.begin(), most.begin() + shown, most.end(), [&](int a, int b) {
        return mean[a] != mean[b] ? mean[a] > mean[b] : a < b;
      });
      for (int i = 0; i < kMostReads; ++i) {
        tokens.add(i < shown ? static_cast<std::uint32_t>(most[at(i)]) : 0U, width);
        shares.add(i < shown ? byte_of(std::sqrt(mean[most[at(i)]]), 0.0F, 1.0F) : 0U, 1);
      }
    }
  }

  struct Setting {
    int policy = 0, budget = 0;
  };
  /// The budgets in the middle first: their scores have room before those of others.
  std::vector<Setting> settings() const {
    const int budgets = static_cast<int>(request_.budgets.size());
    std::vector<Setting> list;
    for (int policy = 0; policy < static_cast<int>(request_.policies.size()); ++policy)
      for (int budget = 0; budget < budgets; ++budget) list.push_back({policy, budget});
    const int middle = (budgets - 1) / 2;
    std::stable_sort(list.begin(), list.end(), [&](const Setting& a, const Setting& b) {
      return std::abs(a.budget - middle) < std::abs(b.budget - middle);
    });
    return list;
  }

  void replay_all() {
    const std::size_t cells = heads_.size() * at(trace_.length()),
                      budgets = request_.budgets.size(), policies = request_.policies.size();
    const int width = blocks_.size() > 254 ? 2 : 1;
    std::vector<std::string> kept(policies, std::string(cells * budgets * at(width), '\xFF'));
    std::vector<std::string> left(policies, std::string(cells * budgets, '\0'));
    std::vector<char> has_left(policies, 0);
    std::vector<float> values(measures_.size() * policies * budgets * heads_.size(),
                              std::numeric_limits<float>::quiet_NaN());
    Json entries(std::vector<std::vector<int>>(policies, std::vector<int>(budgets, 0)));
    Json notes = Json::array(), refused = Json::array();
    std::vector<std::pair<std::string, std::string>> scores;
    std::size_t scores_bytes = 0, without = 0, done = 0;
    std::exception_ptr first;
    for (const Setting& of : settings()) {
      const PolicySpec& policy = request_.policies[at(of.policy)];
      const Budget& budget = request_.budgets[at(of.budget)];
      Progress part(progress_, static_cast<long>(layers_.size()));
      try {
        const int count = budget_entries(budget, trace_, policy);
        const bool scored = scores_bytes < scores_room_;
        const std::vector<HeadReplay> heads = replayed(policy, count, scored, part, notes);
        for (std::size_t h = 0; h < heads_.size(); ++h) {
          const HeadReplay& head = heads[h];
          for (std::size_t t = 0; t < head.evicted_at.size(); ++t) {
            const std::int32_t step = head.evicted_at[t];
            const std::size_t cell = (h * head.evicted_at.size() + t) * budgets + at(of.budget);
            if (step < 0) continue;
            for (int i = 0; i < width; ++i)
              kept[at(of.policy)][cell * at(width) + at(i)] =
                  static_cast<char>(step >> (8 * i) & 0xFF);
            const Fate fate = left_as(head, t);
            left[at(of.policy)][cell] = static_cast<char>(fate);
            if (fate != Fate::evicted) has_left[at(of.policy)] = 1;
          }
          for (std::size_t m = 0; m < measures_.size(); ++m) {
            values[((m * policies + at(of.policy)) * budgets + at(of.budget)) * heads_.size() + h] =
                applies(*measures_[m], policy) ? static_cast<float>(measure_of(*measures_[m], head))
                                               : std::numeric_limits<float>::quiet_NaN();
          }
        }
        entries[at(of.policy)][at(of.budget)] = count;
        ++done;
        if (scored) {
          scores.emplace_back(
              "score-" + std::to_string(of.policy) + "-" + std::to_string(of.budget),
              deflated(score_bytes(heads)));
          scores_bytes += scores.back().second.size() * 4 / 3;
        } else {
          ++without;
        }
      } catch (const Cancelled&) {
        throw;
      } catch (const std::exception& error) {
        if (!first) first = std::current_exception();
        refused.push_back({of.policy, of.budget, error.what()});
        leave_out(policy.text() + " at " + budget.text() + " is left out: " + error.what());
      }
      part.finish();
    }
    if (done == 0) std::rethrow_exception(first);
    ByteList measured;
    for (const float value : values) measured.add(value);
    add("measures", measured.data);
    for (std::size_t p = 0; p < policies; ++p) {
      add("kept-" + std::to_string(p), kept[p]);
      if (has_left[p] != 0) add("left-" + std::to_string(p), left[p]);
    }
    without += add_scores(std::move(scores));
    if (without > 0)
      leave_out("scores and ranks are left out for " + std::to_string(without) + " of " +
                std::to_string(done) +
                " policies at budgets, to keep the page small; fewer layers, policies or budgets "
                "make room");
    Json list = Json::array();
    for (const Measure* measure : measures_) {
      const MeasureInfo& info = *measure->info;
      list.push_back(
          {{"name", info.name}, {"title", info.title}, {"help", info.help}, {"share", info.share}});
    }
    data_.about.update(
        {{"entries", entries}, {"refused", refused}, {"notes", notes}, {"measures", list}});
  }

  /// The heads of the page. Scores of many steps are kept of some layers at a time.
  std::vector<HeadReplay> replayed(const PolicySpec& policy, int budget, bool scored,
                                   Progress& progress, Json& notes) {
    ReplayRequest request{.policy = policy,
                          .budget = budget,
                          .block = request_.block,
                          .compression = request_.compression,
                          .summary = true,
                          .scores_layer = scored ? kEveryHead : -1,
                          .background = request_.background,
                          .states = &states_,
                          .shared = &shared_};
    request.measures = usual_measures(trace_);
    const std::size_t present =
        std::min(at(trace_.length()), at(budget) + at(blocks_.front().size()));
    const std::size_t layer_bytes =
        at(trace_.most_heads()) * blocks_.size() * present * (sizeof(float) + sizeof(Fate));
    const std::size_t group =
        scored ? std::max<std::size_t>(1, kScoresAtOnce / layer_bytes) : layers_.size();
    std::vector<HeadReplay> heads;
    progress.set_total(static_cast<long>(layers_.size()));
    for (std::size_t from = 0; from < layers_.size(); from += group) {
      const std::size_t end = std::min(layers_.size(), from + group);
      request.layers.assign(layers_.begin() + static_cast<std::ptrdiff_t>(from),
                            layers_.begin() + static_cast<std::ptrdiff_t>(end));
      Progress part(progress, static_cast<long>(end - from));
      Replay result = replay(trace_, request, part);
      part.finish();
      for (HeadReplay& head : result.heads) {
        if (std::find(heads_.begin(), heads_.end(), std::pair{head.layer, head.head}) ==
            heads_.end())
          continue;
        if (scored) keep_last(result, head);
        heads.push_back(std::move(head));
      }
      for (const std::string& note : result.notes) {
        const std::string line = policy.text() + ": " + note;
        if (std::find(notes.begin(), notes.end(), line) == notes.end()) notes.push_back(line);
      }
    }
    return heads;
  }

  Fate left_as(const HeadReplay& head, std::size_t token) const {
    const int step = head.evicted_at[token];
    if (static_cast<int>(token) < first_seen(blocks_[at(step)].end, head.reach))
      return Fate::beyond_window;
    if (!head.fates.empty() && head.fates.front().size() == head.evicted_at.size())
      return head.fates.front()[token];
    for (const Merge& merge : head.steps[at(step)].merges)
      if (std::find(merge.from.begin(), merge.from.end(), static_cast<int>(token)) !=
          merge.from.end())
        return Fate::merged;
    for (const Gift& gift : head.steps[at(step)].gifts)
      if (gift.from == static_cast<int>(token)) return Fate::merged;
    return Fate::evicted;
  }

  /// Of the head's scores and fates those of each token's last step in the cache: [1] of [T] scores
  /// and fates, and as the second row of scores the ranks.
  void keep_last(const Replay& result, HeadReplay& head) const {
    const std::size_t tokens = head.evicted_at.size();
    std::vector<float> scores(tokens, std::numeric_limits<float>::quiet_NaN()), ranks(tokens, 0.0F);
    std::vector<Fate> fates(tokens, Fate::by_score);
    for (std::size_t step = 0; step < head.steps.size(); ++step) {
      const bool last = step + 1 == head.steps.size();
      if (!last && head.steps[step].retained == head.steps[step].cache_size) continue;
      const auto present = result.tokens_at(head, static_cast<int>(step));
      std::vector<std::size_t> places;
      if (!head.scores[step].empty()) places = by_score(head.scores[step]);
      std::vector<int> rank(present.size(), 0);
      for (std::size_t i = 0; i < places.size(); ++i) rank[places[i]] = static_cast<int>(i) + 1;
      for (std::size_t row = 0; row < present.size(); ++row) {
        const auto token = at(present[row]);
        if (head.evicted_at[token] != static_cast<std::int32_t>(step) &&
            !(last && head.evicted_at[token] < 0))
          continue;
        if (!places.empty()) scores[token] = head.scores[step][row];
        ranks[token] = static_cast<float>(rank[row]);
        fates[token] = !head.fates[step].empty() ? head.fates[step][row]
                       : head.evicted_at[token] == static_cast<std::int32_t>(step) ? Fate::evicted
                                                                                   : Fate::by_score;
      }
    }
    head.scores = {std::move(scores), std::move(ranks)};
    head.fates = {std::move(fates)};
  }

  std::string score_bytes(const std::vector<HeadReplay>& heads) const {
    ByteList numbers, thresholds, scores, low, high, fates;
    for (const HeadReplay& head : heads) {
      const ScoreScale scale = ScoreScale::of(head.scores[0]);
      for (const float value : {scale.low, scale.high, scale.sign}) numbers.add(value);
      for (const StepRecord& step : head.steps)
        thresholds.add(step.retained < step.cache_size ? step.threshold
                                                       : std::numeric_limits<float>::quiet_NaN());
      for (std::size_t t = 0; t < head.evicted_at.size(); ++t) {
        const auto rank = static_cast<std::uint32_t>(head.scores[1][t]);
        scores.add(scale.code(head.scores[0][t]), 1);
        low.add(rank & 0xFFU, 1);
        high.add(std::min(rank, 0xFFFFU) >> 8U, 1);
        fates.add(static_cast<std::uint32_t>(head.fates[0][t]), 1);
      }
    }
    return numbers.data + thresholds.data + scores.data + low.data + high.data + fates.data;
  }

  /// Adds those for which the page has room; the number of the others.
  std::size_t add_scores(std::vector<std::pair<std::string, std::string>> scores) {
    std::size_t bytes = 0;
    for (const auto& section : data_.sections) bytes += section.second.size() * 4 / 3;
    const std::size_t most = std::min(kMostBytes, std::max(kUsualBytes, bytes / 4 * 5));
    std::size_t without = 0;
    for (auto& section : scores) {
      const std::size_t more = section.second.size() * 4 / 3;
      if (bytes + more + kPageItself > most) {
        ++without;
        continue;
      }
      bytes += more;
      data_.sections.push_back(std::move(section));
    }
    return without;
  }
  static constexpr std::size_t kPageItself = 200'000;  // texts, style and script

  const Trace& trace_;
  const PageRequest& request_;
  Progress& progress_;
  const std::function<void(const std::string&)>& say_;
  std::vector<std::pair<int, int>> heads_;
  std::vector<int> layers_;
  std::vector<Block> blocks_;
  std::vector<int> rows_;
  std::size_t scores_room_;
  std::vector<const Measure*> measures_;
  std::vector<std::string> problems_;
  LayerStatesCache states_{kStatesKept};
  SharedMeasures shared_{kStatesKept / 4};
  PageData data_;
};

}  // namespace

std::vector<int> read_rows(const Trace& trace, const std::vector<Block>& blocks) {
  const Asked asked = asked_first(trace.tokens(), trace.run());
  std::vector<int> rows = asked_queries(trace, asked, blocks.front().end);
  const auto thin = [](std::vector<int>& list) {
    const std::size_t count = list.size();
    for (std::size_t i = 0; count > at(kMostRows) && i < at(kMostRows); ++i)
      list[i] = list[i * count / at(kMostRows)];
    list.resize(std::min(count, at(kMostRows)));
  };
  thin(rows);
  std::vector<int> ends;
  for (const Block& block : blocks) ends.push_back(block.end - 1);
  thin(ends);
  rows.insert(rows.end(), ends.begin(), ends.end());
  std::sort(rows.begin(), rows.end());
  rows.erase(std::unique(rows.begin(), rows.end()), rows.end());
  return rows;
}

PageData page_data(const Trace& trace, const PageRequest& request, const PagePlan& plan,
                   Progress& progress, const std::function<void(const std::string&)>& say) {
  return DataMaker(trace, request, plan, progress, say).make();
}

}  // namespace kvloupe::trace_page
