// The text of a token's card about the model's own expectations.
#include "app/window/state/expectations.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/support/synthetic_trace.h"
#include "tests/support/temporary_folder.h"

namespace kvloupe::window {
namespace {

float log_of(double probability) { return static_cast<float>(std::log(probability)); }

/// Three tokens, 7 8 9, and the two most probable ones after each.
Expectations three_tokens() {
  Expectations expected;
  expected.ids = {7, 8, 9};
  expected.predicted.k = 2;
  expected.predicted.token_ids = {8, 5, 6, 5, 5, 6};
  expected.predicted.logprob = {log_of(0.971), log_of(0.026), log_of(0.5),
                                log_of(0.25),  log_of(0.9),   log_of(0.0001)};
  expected.predicted.loss = {-log_of(0.971), -log_of(0.00002),
                             std::numeric_limits<float>::quiet_NaN()};
  expected.texts = {{8, " cat"}, {5, "\n"}};
  return expected;
}

TEST(Expectations, SayHowLikelyATokenWas) {
  const Expectations expected = three_tokens();
  EXPECT_EQ(likelihood_text(expected, 0), "") << "nothing comes before the first";
  EXPECT_EQ(likelihood_text(expected, 1), "The model gave it 97 %, its first choice.");
  EXPECT_EQ(likelihood_text(expected, 2), "The model gave it under 0.1 % (not in its top 2).");
  EXPECT_EQ(likelihood_text(expected, 3), "");
  Expectations sure = expected;
  sure.predicted.loss = {-log_of(0.9971), -log_of(0.99998)};
  EXPECT_EQ(likelihood_text(sure, 1), "The model gave it 99.7 %, its first choice.");
  EXPECT_EQ(likelihood_text(sure, 2), "The model gave it over 99.9 % (not in its top 2).");
  Expectations cut = expected;
  cut.cut = true;
  cut.predicted.k = 0;
  cut.predicted.token_ids.clear();
  EXPECT_EQ(likelihood_text(cut, 1), "With eviction the model gave it 97 %.");
}

TEST(Expectations, SayWhatIsExpectedNext) {
  const Expectations expected = three_tokens();
  EXPECT_EQ(next_text(expected, 0), "Next it expects “ cat” 97 %, “↵” 2.6 %.");
  EXPECT_EQ(next_text(expected, 1), "Next it expects #6 50 %, “↵” 25 %.");
  EXPECT_EQ(next_text(expected, 2), "Next it expects “↵” 90 %.")
      << "what is next to nothing is left out";
  EXPECT_EQ(next_text(expected, 3), "");
  EXPECT_EQ(next_text(expected, -1), "");
  EXPECT_EQ(next_text({}, 0), "");
}

TEST(Expectations, ComeFromTheTrace) {
  const test::TemporaryFolder folder;
  test::SyntheticTraceOptions options;
  for (const bool vocabulary : {false, true}) {
    options.vocabulary = vocabulary;
    test::write_synthetic_trace(folder / "t.h5", options);
    const Trace trace(folder / "t.h5");
    const Expectations expected = read_expectations(trace);
    EXPECT_FALSE(expected.cut);
    EXPECT_EQ(likelihood_text(expected, 0), "");
    for (int token = 0; token < trace.length(); ++token) {
      const std::int32_t first = expected.predicted.token_ids[static_cast<std::size_t>(token) * 3];
      EXPECT_TRUE(next_text(expected, token).starts_with("Next it expects ")) << token;
      if (vocabulary && first % 7 != 3 && !expected.texts.contains(first)) ADD_FAILURE() << first;
      if (token > 0) {
        EXPECT_TRUE(likelihood_text(expected, token).starts_with("The model gave it 8.2 %"))
            << likelihood_text(expected, token);
      }
    }
  }
  options.predictions = false;
  test::write_synthetic_trace(folder / "t.h5", options);
  const Expectations none = read_expectations(Trace(folder / "t.h5"));
  EXPECT_EQ(likelihood_text(none, 5) + next_text(none, 5), "");
}

}  // namespace
}  // namespace kvloupe::window
