#include "analysis/math/quantisation.h"

#include <algorithm>
#include <cmath>

namespace kvloupe {

namespace {
/// `count` numbers that share a scale, `stride` apart.
void quantise_group(float* numbers, Eigen::Index count, Eigen::Index stride, int bits) {
  double lowest = static_cast<double>(numbers[0]);
  double highest = lowest;
  for (Eigen::Index i = 1; i < count; ++i) {
    const auto x = static_cast<double>(numbers[i * stride]);
    lowest = std::min(lowest, x);
    highest = std::max(highest, x);
  }
  const double step = (highest - lowest) / (std::ldexp(1.0, bits) - 1.0);
  if (!(step > 0.0)) return;  // all are equal
  for (Eigen::Index i = 0; i < count; ++i) {
    float& x = numbers[i * stride];
    x = static_cast<float>(lowest + std::round((static_cast<double>(x) - lowest) / step) * step);
  }
}

constexpr double kExactNumberBytes = 2.0;  // bytes of a number in 16 bits
constexpr double kGroupBytes = 4.0;        // of a scale and a zero point

double side_bytes(double width, double entries, double stored, double groups, bool by_channel,
                  const Quantisation& quantisation) {
  const double per_row = std::ceil(width / quantisation.group);
  return kExactNumberBytes * width * (entries - stored) + stored * width * quantisation.bits / 8.0 +
         kGroupBytes * (by_channel ? groups * width : stored * per_row);
}
}  // namespace

void quantise_rows(Matrix& rows, Eigen::Index first, Eigen::Index count, bool by_channel, int bits,
                   int group) {
  const Eigen::Index width = rows.cols();
  const Eigen::Index size = group;
  if (by_channel) {
    for (Eigen::Index row = first; row < first + count; row += size) {
      const Eigen::Index members = std::min(size, first + count - row);
      for (Eigen::Index c = 0; c < width; ++c) {
        quantise_group(rows.data() + row * width + c, members, width, bits);
      }
    }
    return;
  }
  for (Eigen::Index row = first; row < first + count; ++row) {
    for (Eigen::Index c = 0; c < width; c += size) {
      quantise_group(rows.data() + row * width + c, std::min(size, width - c), 1, bits);
    }
  }
}

double bytes_of_entries(const ModelInfo& layer, int entries, const StoredEntries& stored,
                        const Quantisation& quantisation) {
  const double keys = side_bytes(layer.head_dim, entries, stored.keys, stored.key_groups,
                                 quantisation.keys_by_channel, quantisation);
  if (layer.value_is_key_prefix) return keys;
  return keys + side_bytes(layer.value_width(), entries, stored.values, stored.value_groups,
                           quantisation.values_by_channel, quantisation);
}

double planned_bytes(const ModelInfo& layer, int entries, const Quantisation& quantisation) {
  const double stored = std::max(entries - quantisation.residual, 0);
  const double groups = stored / quantisation.group;
  const double keys = side_bytes(layer.head_dim, entries, stored, groups,
                                 quantisation.keys_by_channel, quantisation);
  if (layer.value_is_key_prefix) return keys;
  return keys + side_bytes(layer.value_width(), entries, stored, groups,
                           quantisation.values_by_channel, quantisation);
}

}  // namespace kvloupe
