#include "analysis/math/head_roles.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace kvloupe {

namespace {
constexpr int kRecent = 16;
constexpr int kQueryRows = 64;  // queries of one product

constexpr RoleInfo kRoles[] = {
    {"role_sink", "sink", "Attention to token 0", "mean over q > 0 of A[q,0]",
     "StreamingLLM section 3.1", 0.3, &HeadRoles::sink, true},
    {"role_previous", "previous", "Attention to the previous token", "mean over q > 0 of A[q,q-1]",
     "Olsson et al. 2022", 0.3, &HeadRoles::previous},
    {"role_recent", "recent", "Attention to the last 16 tokens",
     "mean over q >= 16 of the sum of A[q,i] over q-15 <= i <= q", "ours", 0.6, &HeadRoles::recent},
    {"role_induction", "induction", "Attention to what followed the same token before",
     "mean over q whose token occurred before at i <= q-2 of the sum over these i of A[q,i+1]",
     "Olsson et al. 2022, prefix matching", 0.3, &HeadRoles::induction},
    {"role_retrieval", "retrieval", "Answer tokens looked up in the context",
     "share of the generated tokens that stand in the needle (else in the prompt) for which the "
     "query before them gives its largest attention to such a place",
     "Wu et al. 2024", 0.1, &HeadRoles::retrieval},
    {"role_question", "question", "Attention to the question",
     "mean over the queries after the question of their attention to the question", "ours", 0.3,
     &HeadRoles::question},
};

/// Attention of one query head, cell by cell, from the log-sum-exps of its rows.
class Cells {
 public:
  Cells(const MatrixView& queries, const MatrixView& keys, std::span<const float> logsumexp,
        const LogitRule& rule, const Reach& reach)
      : queries_(queries), keys_(keys), logsumexp_(logsumexp), rule_(rule), reach_(reach) {}

  int count() const { return static_cast<int>(queries_.rows()); }
  bool sees(int query, int token) const {
    return token <= query && token >= first_seen(query, reach_);
  }
  double cell(int query, int token) const {
    if (!sees(query, token)) return 0.0;
    return from_product(query, queries_.row(query).dot(keys_.row(token)));
  }
  /// Σ over the tokens [from(q), to(q)) that q sees, for every query from `first` on: Σ over them.
  template <typename From, typename To, typename Take>
  void sums(int first, const From& from, const To& to, Progress& progress, const Take& take) const {
    Matrix products;
    for (int begin = first; begin < count(); begin += kQueryRows) {
      progress.check();
      const int end = std::min(begin + kQueryRows, count());
      const int low = from(begin), high = to(end - 1);
      products.noalias() =
          queries_.middleRows(begin, end - begin) * keys_.middleRows(low, high - low).transpose();
      for (int query = begin; query < end; ++query) {
        double sum = 0.0;
        for (int token = std::max(from(query), first_seen(query, reach_));
             token < std::min(to(query), query + 1); ++token) {
          sum += from_product(query, products(query - begin, token - low));
        }
        take(query, sum);
      }
    }
  }
  /// The token that a query gives its largest attention; of equals the first.
  int strongest(int query) const {
    const int first = first_seen(query, reach_);
    const Eigen::VectorXf products =
        keys_.middleRows(first, query + 1 - first) * queries_.row(query).transpose();
    Eigen::Index at = 0;
    products.maxCoeff(&at);
    return first + static_cast<int>(at);
  }

 private:
  /// The log-sum-exp is rounded on its own way: never more than all of the attention.
  double from_product(int query, float product) const {
    return std::min(1.0, std::exp(rule_.logit(static_cast<double>(product)) -
                                  logsumexp_[static_cast<std::size_t>(query)]));
  }

  const MatrixView& queries_;
  const MatrixView& keys_;
  std::span<const float> logsumexp_;
  LogitRule rule_;
  Reach reach_;
};

/// A mean that is unknown without a value.
class Mean {
 public:
  void add(double value) {
    sum_ += value;
    ++count_;
  }
  double value() const {
    return count_ > 0 ? sum_ / static_cast<double>(count_) : HeadRoles::kUnknown;
  }

 private:
  double sum_ = 0.0;
  long count_ = 0;
};

double induction(const Cells& cells, const RoleTokens& tokens, Progress& progress) {
  Mean mean;
  std::unordered_map<std::int32_t, std::vector<int>> places;  // of each id, ascending
  for (int query = 0; query < cells.count(); ++query) {
    progress.check();
    std::vector<int>& before = places[tokens.ids[static_cast<std::size_t>(query)]];
    double sum = 0.0;
    bool repeated = false;
    for (const int place : before) {
      if (place > query - 2 || !cells.sees(query, place + 1)) continue;
      repeated = true;
      sum += cells.cell(query, place + 1);
    }
    if (repeated) mean.add(sum);
    before.push_back(query);
  }
  return mean.value();
}

double retrieval(const Cells& cells, const RoleTokens& tokens, Progress& progress) {
  Mean mean;
  const TokenRange source =
      tokens.needle.empty() ? TokenRange{0, tokens.prompt_length} : tokens.needle;
  for (int answer = tokens.prompt_length; answer < cells.count(); ++answer) {
    progress.check();
    const std::int32_t id = tokens.ids[static_cast<std::size_t>(answer)];
    const int query = answer - 1;
    const auto stands_at = [&](int place) {
      return source.contains(place) && place < query &&
             tokens.ids[static_cast<std::size_t>(place)] == id;
    };
    bool copied = false;
    for (int place = source.first; place < source.end; ++place) copied |= stands_at(place);
    if (copied) mean.add(stands_at(cells.strongest(query)) ? 1.0 : 0.0);
  }
  return mean.value();
}
}  // namespace

std::span<const RoleInfo> role_catalog() { return kRoles; }

int strongest_role(const HeadRoles& roles) {
  int strongest = -1;
  double most = 1.0;
  for (std::size_t i = 0; i < std::size(kRoles); ++i) {
    if (kRoles[i].beside) continue;
    const double factor = roles.*kRoles[i].value / kRoles[i].threshold;
    if (factor < most || std::isnan(factor)) continue;
    if (strongest >= 0 && factor == most) continue;
    most = factor;
    strongest = static_cast<int>(i);
  }
  return strongest;
}

bool rests_on_sink(const HeadRoles& roles) { return roles.sink >= kRoles[0].threshold; }

int heads_reaching(std::span<const HeadRoles> heads, std::size_t role, double factor) {
  const RoleInfo& info = kRoles[role];
  return static_cast<int>(std::count_if(heads.begin(), heads.end(), [&](const HeadRoles& head) {
    return head.*info.value >= factor * info.threshold;  // never of an unknown value
  }));
}

RoleTokens role_tokens(const TokenTable& tokens, const RunInfo& run) {
  return {tokens.ids, run.prompt_length, segment_range(tokens, "question"),
          segment_range(tokens, "needle")};
}

HeadRoles head_roles(const MatrixView& queries, const MatrixView& keys,
                     std::span<const float> logsumexp, const LogitRule& rule, const Reach& reach,
                     const RoleTokens& tokens, Progress& progress) {
  const Cells cells(queries, keys, logsumexp, rule, reach);
  HeadRoles roles;
  Mean sink, previous, recent, question;
  for (int query = 1; query < cells.count(); ++query) {
    if (cells.sees(query, 0)) sink.add(cells.cell(query, 0));
    if (cells.sees(query, query - 1)) previous.add(cells.cell(query, query - 1));
  }
  roles.sink = sink.value();
  roles.previous = previous.value();
  cells.sums(
      kRecent, [](int query) { return query + 1 - kRecent; }, [](int query) { return query + 1; },
      progress, [&](int, double sum) { recent.add(sum); });
  roles.recent = recent.value();
  roles.induction = induction(cells, tokens, progress);
  roles.retrieval = retrieval(cells, tokens, progress);
  if (!tokens.question.empty()) {
    cells.sums(
        tokens.question.end, [&](int) { return tokens.question.first; },
        [&](int) { return tokens.question.end; }, progress,
        [&](int query, double sum) {
          if (first_seen(query, reach) < tokens.question.end) question.add(sum);
        });
  }
  roles.question = question.value();
  return roles;
}

}  // namespace kvloupe
