#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <initializer_list>
#include <vector>

namespace kvloupe {

/// Columns of a product that one thread computes at once. The sizes do not depend on the number of
/// threads, so the bits of a product do not either. A product of few rows reads the weights once,
/// in place (multiply_rows()), with each row's bits those of the row alone: its pieces are larger.
constexpr std::int64_t kFewRows = 32;
constexpr std::int64_t kPieceColumns = 96;
constexpr std::int64_t kPieceColumnsOfFewRows = 288;

/// W [n,k] and, if the model has one, b [n] of W x + b.
struct Projection {
  at::Tensor weight, bias;
  /// x [...,k] -> [...,n], see project().
  at::Tensor operator()(const at::Tensor& x) const;
};

/// The products of one x [...,k] with each of these: [...,n] each. In float32 on the CPU, threads
/// share them in pieces: a free thread takes the next piece. So no thread waits long for one whose
/// processor another program has taken, as with the equal shares of a BLAS or libtorch. With
/// gradients, under autocast, in other types and on other devices libtorch computes them.
std::vector<at::Tensor> project(const at::Tensor& x,
                                std::initializer_list<const Projection*> projections);

}  // namespace kvloupe
