#include "analysis/policy/kit/greedy_removal.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "analysis/base/system/vector_clones.h"

namespace kvloupe {

namespace {
constexpr double kInfinity = std::numeric_limits<double>::infinity();
/// A difference of sums is trusted down to this share of the larger sum.
constexpr double kLeastShare = 1e-3;

/// The entries that may still go, side by side in any order: slot -> row.
struct Slots {
  std::vector<int> rows;
  std::vector<double> squares;  // ‖v‖²

  std::size_t size() const { return rows.size(); }
  template <typename T>
  static void drop(std::vector<T>& values, std::size_t slot) {
    values[slot] = values.back();
    values.pop_back();
  }
  void drop(std::size_t slot) {
    drop(rows, slot);
    drop(squares, slot);
  }
};

/// One query's sums after the entry `gone` has left.
struct Sums {
  double weight_gone = 0.0;   // e of the entry that left; 0: none did
  double towards_gone = 0.0;  // target·v of it, less ‖target‖²
  double length = 0.0;        // ‖target‖²
  double square = 0.0;        // ‖r‖²
  double mass = 0.0;          // Z
};

/// Takes `gone` out of the products r·D_j, then adds to errors[j] the error without j. Returns how
/// many entries hold so much of the mass that the difference would cancel: those are left out.
KVLOUPE_VECTOR_CLONES
std::size_t update_and_add(const Sums& sums, const double* similarity, const double* squares,
                           const double* weights, const double* towards, double* products,
                           double* errors, std::size_t n) {
  const double least = kLeastShare * sums.mass;
  double heavy = 0.0;
#pragma omp simd reduction(+ : heavy)
  for (std::size_t j = 0; j < n; ++j) {
    // D_gone·D_j = v_gone·v_j − target·v_gone − target·v_j + ‖target‖².
    const double product =
        products[j] - sums.weight_gone * (similarity[j] - towards[j] - sums.towards_gone);
    products[j] = product;
    const double e = weights[j];
    const double rest = sums.mass - e;
    const bool cancels = rest <= least;
    const double offset = squares[j] - 2.0 * towards[j] + sums.length;  // ‖D_j‖²
    const double error =
        (sums.square - 2.0 * e * product + e * e * offset) / (cancels ? 1.0 : rest * rest);
    errors[j] += cancels ? 0.0 : error;
    heavy += cancels ? 1.0 : 0.0;
  }
  return static_cast<std::size_t>(heavy);
}

/// With D_j = v_j − target, the output's error over a set is r/Z: r = Σ e_i D_i, Z = Σ e_i. Without
/// j it is (r − e_j D_j)/(Z − e_j), so its square needs ‖r‖², r·D_j and ‖D_j‖² only.
class Query {
 public:
  Query(const JudgingQuery& query, const Eigen::MatrixXd& values, const std::vector<char>& present,
        const Slots& slots)
      : query_(query), values_(values), present_(present) {
    sums_.length = query_.target.squaredNorm();
    const Eigen::VectorXd towards = values_ * query_.target;
    for (const int row : slots.rows) towards_.push_back(towards[row]);
    sum_anew(slots);
  }

  /// After the entry of `slot` has left `present`, and before it leaves `slots`.
  void remove(std::size_t slot, const Slots& slots) {
    const int gone = slots.rows[slot];
    const double e = weights_[slot];
    sums_.weight_gone = e;
    sums_.towards_gone = towards_[slot] - sums_.length;
    for (std::vector<double>* values : {&weights_, &products_, &towards_}) {
      Slots::drop(*values, slot);
    }
    if (apart_.row == gone) apart_.row = -1;
    if (apart_.row >= 0) apart_.remove(gone, *this);
    sums_.mass -= e;
    residual_ -= e * offset(gone);
    sums_.square = residual_.squaredNorm();
    sum_next_ = sums_.mass < kLeastShare * mass_when_summed_;
  }

  /// Adds to errors [slot] the error without each slot. `similarity` [slot]: v·v_gone.
  void add_errors(const Slots& slots, const double* similarity, std::vector<double>& errors) {
    if (sum_next_) sum_anew(slots);
    const std::size_t heavy =
        update_and_add(sums_, similarity, slots.squares.data(), weights_.data(), towards_.data(),
                       products_.data(), errors.data(), slots.size());
    if (heavy == 0) return;
    for (std::size_t j = 0; j < slots.size(); ++j) {
      if (sums_.mass - weights_[j] <= kLeastShare * sums_.mass) {
        errors[j] += error_without(slots.rows[j]);
      }
    }
  }

 private:
  Eigen::VectorXd offset(Eigen::Index row) const {
    return values_.row(row).transpose() - query_.target;
  }

  /// Sums over all that is present but one row, relative to the largest logit among them.
  struct Total {
    double largest = -kInfinity;
    double mass = 0.0;
    Eigen::VectorXd residual;
  };
  Total total_without(int without) const {
    Total total;
    total.largest = query_.kept_logits.size() > 0 ? query_.kept_logits.maxCoeff() : -kInfinity;
    const auto counts = [&](Eigen::Index i) {
      return i != without && present_[static_cast<std::size_t>(i)] != 0;
    };
    for (Eigen::Index i = 0; i < values_.rows(); ++i) {
      if (counts(i)) total.largest = std::max(total.largest, query_.logits[i]);
    }
    total.residual = Eigen::VectorXd::Zero(values_.cols());
    if (total.largest == -kInfinity) return total;
    for (Eigen::Index i = 0; i < values_.rows(); ++i) {
      if (!counts(i)) continue;
      const double e = std::exp(query_.logits[i] - total.largest);
      total.mass += e;
      total.residual += e * offset(i);
    }
    for (Eigen::Index i = 0; i < query_.kept_logits.size(); ++i) {
      const double e = std::exp(query_.kept_logits[i] - total.largest);
      total.mass += e;
      total.residual += e * (query_.kept_values.row(i).transpose() - query_.target);
    }
    return total;
  }

  void sum_anew(const Slots& slots) {
    const Total total = total_without(-1);
    mass_when_summed_ = sums_.mass = total.mass;
    residual_ = total.residual;
    sums_.square = residual_.squaredNorm();
    sums_.weight_gone = 0.0;
    sum_next_ = false;
    const double towards = query_.target.dot(residual_);
    const Eigen::VectorXd products = values_ * residual_;
    weights_.clear();
    products_.clear();
    for (const int row : slots.rows) {
      weights_.push_back(std::exp(query_.logits[row] - total.largest));
      products_.push_back(products[row] - towards);
    }
  }

  /// The sums without the one entry that holds nearly all of the mass, where a difference cancels.
  struct Apart {
    int row = -1;
    Total total;
    double mass_when_summed = 0.0;

    void remove(int gone, const Query& query) {
      const double e = std::exp(query.query_.logits[gone] - total.largest);
      total.mass -= e;
      total.residual -= e * query.offset(gone);
      if (!(total.mass >= kLeastShare * mass_when_summed)) row = -1;
    }
  };

  double error_without(int row) {
    if (apart_.row != row) {
      apart_.total = total_without(row);
      apart_.mass_when_summed = apart_.total.mass;
      apart_.row = row;
    }
    if (apart_.total.largest == -kInfinity) return kInfinity;
    return (apart_.total.residual / apart_.total.mass).squaredNorm();
  }

  const JudgingQuery& query_;
  const Eigen::MatrixXd& values_;
  const std::vector<char>& present_;
  std::vector<double> weights_;   // [slot] e
  std::vector<double> products_;  // [slot] r·D_j
  std::vector<double> towards_;   // [slot] target·v_j
  Eigen::VectorXd residual_;      // [d] r
  Sums sums_;
  double mass_when_summed_ = 0.0;
  bool sum_next_ = false;
  Apart apart_;
};

/// Whether the entry of slot a goes before that of slot b.
bool goes_before(const Slots& slots, const std::vector<double>& errors, std::size_t a,
                 std::size_t b) {
  if (errors[a] != errors[b]) return errors[a] < errors[b];
  return slots.rows[a] < slots.rows[b];
}
}  // namespace

std::vector<int> greedy_removal_order(const std::vector<JudgingQuery>& queries,
                                      const Eigen::MatrixXd& values,
                                      const std::vector<bool>& removable, std::size_t most) {
  const auto n = static_cast<std::size_t>(values.rows());
  std::vector<char> present(n, 1);
  Slots slots;
  for (std::size_t row = 0; row < n; ++row) {
    if (!removable[row]) continue;
    slots.rows.push_back(static_cast<int>(row));
    slots.squares.push_back(values.row(static_cast<Eigen::Index>(row)).squaredNorm());
  }
  std::vector<Query> judges;
  judges.reserve(queries.size());
  for (const JudgingQuery& query : queries) judges.emplace_back(query, values, present, slots);

  std::vector<int> order;
  std::vector<double> similarity(slots.size(), 0.0), errors;
  while (slots.size() > 0) {
    errors.assign(slots.size(), 0.0);
    for (Query& judge : judges) judge.add_errors(slots, similarity.data(), errors);
    if (order.size() >= most) break;
    std::size_t least = 0;
    for (std::size_t slot = 1; slot < slots.size(); ++slot) {
      if (goes_before(slots, errors, slot, least)) least = slot;
    }
    if (errors[least] == kInfinity) break;
    const int gone = slots.rows[least];
    order.push_back(gone);
    present[static_cast<std::size_t>(gone)] = 0;
    for (Query& judge : judges) judge.remove(least, slots);
    slots.drop(least);
    const Eigen::VectorXd all = values * values.row(gone).transpose();
    for (std::size_t slot = 0; slot < slots.size(); ++slot)
      similarity[slot] = all[slots.rows[slot]];
  }
  std::vector<std::size_t> rest(slots.size());
  std::iota(rest.begin(), rest.end(), std::size_t{0});
  std::erase_if(rest, [&](std::size_t slot) { return errors[slot] == kInfinity; });
  std::sort(rest.begin(), rest.end(),
            [&](std::size_t a, std::size_t b) { return goes_before(slots, errors, a, b); });
  for (const std::size_t slot : rest) order.push_back(slots.rows[slot]);
  return order;
}

}  // namespace kvloupe
