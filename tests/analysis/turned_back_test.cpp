#include "analysis/metric/turned_back.h"

#include <gtest/gtest.h>

#include "tests/support/random_matrix.h"

namespace kvloupe {
namespace {

TEST(TurnedBack, IsTheRotationByMinusThePosition) {
  for (const RopePairing pairing : {RopePairing::half, RopePairing::interleaved}) {
    for (const int rotated : {0, 6}) {
      ModelInfo model{
          .head_dim = 10, .rope_theta = 10000.0, .rope_pairing = pairing, .rotary_dim = rotated};
      const Rope rope(model);
      const TurnedBack turned_back(rope);
      TurnedBack::Cursor cursor;
      const Eigen::MatrixXd states = test::random_matrix(1, 10, 3).cast<double>();
      for (const long position : {0L, 1L, 63L, 64L, 65L, 8191L, 70L, 1000003L}) {
        std::vector<double> expected(states.data(), states.data() + 10), found = expected;
        rope.turn(std::span(expected), -static_cast<double>(position));
        turned_back.turn(std::span(found), position, cursor);
        for (std::size_t c = 0; c < 10; ++c) EXPECT_NEAR(found[c], expected[c], 1e-9) << position;
      }
    }
  }
}

}  // namespace
}  // namespace kvloupe
