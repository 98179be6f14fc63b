#include "capture/model/kv_cache.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace kvloupe {

namespace {

/// A copy of [n] numbers as a tensor of `like`'s dtype and device.
at::Tensor tensor_of(std::span<const float> numbers, const at::TensorOptions& like) {
  at::Tensor tensor = at::empty({std::ssize(numbers)}, at::kFloat);
  std::copy(numbers.begin(), numbers.end(), tensor.data_ptr<float>());
  return tensor.to(like);
}

/// The entries of one head of `added` [Hk,m,d] become those of `held` [Hk,capacity,d] from `n` on.
void append_rows(const at::Tensor& held, const at::Tensor& added, std::int64_t head,
                 std::int64_t n) {
  const std::int64_t m = added.size(1), numbers = m * added.size(2);
  if (!held.is_cpu() || !added.is_contiguous() || added.dtype() != held.dtype()) {
    held[head].slice(0, n, n + m).copy_(added[head]);
    return;
  }
  const auto bytes = static_cast<std::size_t>(numbers) * held.element_size();
  const std::int64_t place = (head * held.size(1) + n) * held.size(2);
  std::memcpy(
      static_cast<char*>(held.data_ptr()) + static_cast<std::size_t>(place) * held.element_size(),
      static_cast<const char*>(added.data_ptr()) + static_cast<std::size_t>(head) * bytes, bytes);
}

/// The rows of x [capacity,d] from `first` on become those at `rows`, ascending.
void gather(at::Tensor x, std::span<const std::int32_t> rows, std::size_t first) {
  const auto bytes = static_cast<std::size_t>(x.size(1)) * x.element_size();
  if (x.is_cpu()) {  // in place: rows only move to the front
    auto* const data = static_cast<char*>(x.data_ptr());
    for (std::size_t i = 0, end = 0; i < rows.size(); i = end) {
      const auto from = static_cast<std::size_t>(rows[i]);
      for (end = i + 1; end < rows.size() && rows[end] == rows[end - 1] + 1;) ++end;
      std::memmove(data + (first + i) * bytes, data + from * bytes, (end - i) * bytes);
    }
    return;
  }
  at::Tensor moved = at::empty({std::ssize(rows)}, at::kLong);
  std::copy(rows.begin(), rows.end(), moved.data_ptr<std::int64_t>());
  const auto begin = static_cast<std::int64_t>(first);
  x.slice(0, begin, begin + moved.size(0)).copy_(x.index_select(0, moved.to(x.device())));
}

/// Rows of x [capacity,d] from `first` on become `numbers`.
void replace_rows(const at::Tensor& x, std::int64_t first, std::span<const float> numbers) {
  if (numbers.empty()) return;
  const at::Tensor rows = tensor_of(numbers, x.options()).view({-1, x.size(1)});
  x.slice(0, first, first + rows.size(0)).copy_(rows);
}

}  // namespace

LayerCache::LayerCache(std::int64_t heads, std::int64_t head_dim, std::int64_t capacity,
                       const at::TensorOptions& like)
    : keys_(at::empty({heads, capacity, head_dim}, like)),
      values_(at::empty({heads, capacity, head_dim}, like)),
      tokens_(static_cast<std::size_t>(heads)),
      log_sizes_(static_cast<std::size_t>(heads)) {}

void LayerCache::reserve(std::int64_t needed) {
  const std::int64_t capacity = keys_.size(1);
  if (needed <= capacity) return;
  const std::int64_t larger = std::max(needed, capacity + capacity / 2);
  for (at::Tensor* held : {&keys_, &values_}) {
    at::Tensor grown = at::empty({heads(), larger, held->size(2)}, held->options());
    grown.slice(1, 0, capacity).copy_(*held);
    *held = grown;
  }
}

void LayerCache::append(const at::Tensor& key, const at::Tensor& value) {
  const std::int64_t m = key.size(1);
  for (std::int64_t head = 0; head < heads(); ++head) {
    const std::int64_t n = length(head);
    reserve(n + m);
    append_rows(keys_, key, head, n);
    append_rows(values_, value, head, n);
    auto& tokens = tokens_[static_cast<std::size_t>(head)];
    tokens.resize(static_cast<std::size_t>(n + m));
    std::iota(tokens.begin() + n, tokens.end(), static_cast<std::int32_t>(seen_));
    auto& log_sizes = log_sizes_[static_cast<std::size_t>(head)];
    if (!log_sizes.empty()) log_sizes.resize(tokens.size(), 0.0F);
  }
  seen_ += m;
}

at::Tensor LayerCache::log_sizes(std::int64_t head) const {
  const auto& own = log_sizes_[static_cast<std::size_t>(head)];
  if (own.empty()) return {};
  return tensor_of(own, keys_.options().dtype(at::kFloat));
}

void LayerCache::keep(std::int64_t head, std::span<const std::int32_t> rows) {
  auto& tokens = tokens_[static_cast<std::size_t>(head)];
  if (rows.size() == tokens.size()) return;
  std::size_t first = 0;  // rows before it stay where they are
  while (first < rows.size() && static_cast<std::size_t>(rows[first]) == first) ++first;
  for (std::size_t i = first; i < rows.size(); ++i) {
    tokens[i] = tokens[static_cast<std::size_t>(rows[i])];
  }
  tokens.resize(rows.size());
  // The log sizes no longer match the present rows; the caller sets them anew.
  log_sizes_[static_cast<std::size_t>(head)].clear();
  if (first == rows.size()) return;
  gather(keys_[head], rows.subspan(first), first);
  gather(values_[head], rows.subspan(first), first);
}

void LayerCache::replace(std::int64_t head, std::int64_t row, std::span<const float> key,
                         std::span<const float> value) {
  if (!key.empty()) keys_[head][row].copy_(tensor_of(key, keys_.options()));
  if (!value.empty()) values_[head][row].copy_(tensor_of(value, values_.options()));
}

void LayerCache::replace_keys(std::int64_t head, std::int64_t first, std::span<const float> keys) {
  replace_rows(keys_[head], first, keys);
}

void LayerCache::replace_values(std::int64_t head, std::int64_t first,
                                std::span<const float> values) {
  replace_rows(values_[head], first, values);
}

void LayerCache::set_log_sizes(std::int64_t head, std::span<const float> log_sizes) {
  log_sizes_[static_cast<std::size_t>(head)].assign(log_sizes.begin(), log_sizes.end());
}

void LayerCache::take(const LayerCache& other) {
  std::size_t longest = 0;
  for (const auto& tokens : other.tokens_) longest = std::max(longest, tokens.size());
  const auto n = static_cast<std::int64_t>(longest);
  reserve(n);
  keys_.slice(1, 0, n).copy_(other.keys_.slice(1, 0, n));
  values_.slice(1, 0, n).copy_(other.values_.slice(1, 0, n));
  seen_ = other.seen_;
  tokens_ = other.tokens_;
  log_sizes_ = other.log_sizes_;
}

LayerCache LayerCache::copy() const {
  LayerCache made(heads(), keys_.size(2), 0, keys_.options());
  made.take(*this);
  return made;
}

}  // namespace kvloupe
