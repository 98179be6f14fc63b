// From the residual stream to the logits: against the twin, by hand, and traces that do not say.

#include "analysis/math/logit_path.h"

#include "tests/naive/naive_logits.h"
#include "tests/support/edited_trace.h"
#include "tests/support/random_matrix.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

std::vector<double> list(const Eigen::VectorXd& v) { return {v.begin(), v.end()}; }

struct LogitPathTest : testing::Test {
  std::filesystem::path write(const char* name, const test::SyntheticTraceOptions& options) {
    const auto path = folder_ / name;
    test::write_synthetic_trace(path, options);
    return path;
  }
  static test::SyntheticTraceOptions with_head() {
    return test::SyntheticTraceOptions{.lm_head = true};
  }
  test::TemporaryFolder folder_;
};

/// The input of the twin, from a trace that it reads in its own way.
naive::LogitOf twin_of(const Trace& trace, int id) {
  const TraceFinalNorm norm(trace);
  const Matrix head = *trace.lm_head();
  naive::LogitOf twin;
  twin.weight = list(norm.weight());
  twin.bias.assign(twin.weight.size(), 0.0);
  twin.centred = norm.centred();
  for (Eigen::Index i = 0; i < head.cols(); ++i) twin.row.push_back(double{head(id, i)});
  return twin;
}

/// The residual stream that a token's hidden state comes from: the synthetic ones have no epsilon.
std::vector<double> residual_of(const Trace& trace, int token) {
  const TraceFinalNorm norm(trace);
  const Matrix hidden = *trace.final_hidden();
  std::vector<double> x;
  for (Eigen::Index i = 0; i < hidden.cols(); ++i) {
    x.push_back(double{hidden(token, i)} / norm.weight()[i] * norm.rms(token));
  }
  return x;
}

TEST_F(LogitPathTest, AChangeOfTheResidualStreamIsThatOfTheTwin) {
  const Trace trace(write("t.h5", with_head()));
  ASSERT_EQ(LogitPath::missing(trace), "");
  const LogitPath path(trace);
  const Matrix head = *trace.lm_head();
  for (const int token : {0, 40, 103}) {
    const std::vector<double> x = residual_of(trace, token);
    for (const int id : {0, 17, 49}) {
      const naive::LogitOf twin = twin_of(trace, id);
      const Eigen::VectorXd change =
          test::random_matrix(1, 24, static_cast<unsigned>(id + token)).row(0).cast<double>();
      const double expected = twin.change(x, list(change));
      const Eigen::VectorXd input = path.head_input_change(token, change);
      EXPECT_NEAR(head.row(id).cast<double>().dot(input), expected,
                  1e-5 * (1 + std::abs(expected)));
      EXPECT_NEAR(path.gradient(token, id).dot(change), expected, 1e-5 * (1 + std::abs(expected)));
      // The twin's own logit is that of the stored hidden state.
      EXPECT_NEAR(twin(x), trace.final_hidden()->row(token).dot(head.row(id)), 1e-4);
    }
    // Longer or shorter, the residual stream has the same logits.
    const Eigen::VectorXd along = Eigen::Map<const Eigen::VectorXd>(x.data(), 24);
    EXPECT_LT(path.head_input_change(token, along).norm(), 1e-5);
  }
}

TEST_F(LogitPathTest, AHeadsOutputReachesTheLogitThroughItsOutputWeight) {
  const Trace trace(write("t.h5", with_head()));
  const LogitPath path(trace);
  const Eigen::VectorXd gradient = path.gradient(50, 7);
  for (const int query_head : {0, 3}) {
    const OutputWeight weight = *trace.output_weight(1, query_head);
    const Eigen::VectorXd change = test::random_matrix(1, 16, 5).row(0).cast<double>();
    const naive::LogitOf twin = twin_of(trace, 7);
    const double expected = twin.change(residual_of(trace, 50), list(weight.apply(change)));
    Matrix room;
    const Eigen::VectorXd of_output = weight.floats(room).cast<double>() * gradient;
    EXPECT_NEAR(of_output.dot(change), expected, 1e-5 * (1 + std::abs(expected)));
  }
}

TEST_F(LogitPathTest, WithoutTheNormTheChangeWouldBeAnother) {
  const Trace trace(write("t.h5", with_head()));
  const Eigen::VectorXd change = test::random_matrix(1, 24, 3).row(0).cast<double>();
  const double bare = trace.lm_head()->row(4).cast<double>().dot(change);
  const double normed = LogitPath(trace).gradient(6, 4).dot(change);  // rms about 8
  EXPECT_GT(std::abs(bare), 3 * std::abs(normed));
}

TEST_F(LogitPathTest, ALayerNormTakesTheMeanOut) {
  const auto path = write("t.h5", with_head());
  std::vector<double> bias(24);
  {
    // x̂ of the trace is made free of its mean; the file then says that the norm is centred.
    test::EditedTrace edit(path);
    Matrix weight(1, 24), hidden(104, 24), shift(1, 24);
    edit.read("/model/final_norm", H5T_NATIVE_FLOAT, weight.data());
    edit.read("/predictions/hidden", H5T_NATIVE_FLOAT, hidden.data());
    for (Eigen::Index i = 0; i < 24; ++i) {
      shift(0, i) = 0.25F * static_cast<float>(i % 5);
      bias[i] = shift(0, i);
    }
    for (Eigen::Index token = 0; token < 104; ++token) {
      Eigen::RowVectorXf own = hidden.row(token).cwiseQuotient(weight.row(0));
      own.array() -= own.mean();
      own /= std::sqrt(own.squaredNorm() / 24.0F);
      hidden.row(token) = own.cwiseProduct(weight.row(0)) + shift.row(0);
    }
    edit.write("/predictions/hidden", H5T_NATIVE_FLOAT, hidden.data());
    edit.replace("/model/final_norm_bias", H5T_IEEE_F32LE, {24});
    edit.write("/model/final_norm_bias", H5T_NATIVE_FLOAT, shift.data());
    const std::uint8_t yes = 1;
    edit.attribute("/model/final_norm", "centred", H5T_STD_U8LE, &yes);
  }
  const Trace trace(path);
  const LogitPath logits(trace);
  const TraceFinalNorm norm(trace);
  ASSERT_TRUE(norm.centred());
  naive::LogitOf twin = twin_of(trace, 9);
  twin.bias = bias;
  for (const int token : {2, 77}) {
    std::vector<double> x = list(norm.normed(token) * norm.rms(token));
    for (double& one : x) one += 3.0;  // a mean that the norm takes out
    const Eigen::VectorXd change = test::random_matrix(1, 24, 8).row(0).cast<double>();
    const double expected = twin.change(x, list(change));
    EXPECT_NEAR(logits.gradient(token, 9).dot(change), expected, 1e-5 * (1 + std::abs(expected)));
    EXPECT_NEAR(twin(x), trace.final_hidden()->row(token).dot(trace.lm_head()->row(9)), 1e-4);
    EXPECT_LT(std::abs(logits.gradient(token, 9).sum()), 1e-5);  // the mean changes nothing
  }
}

TEST_F(LogitPathTest, RowsOfTheTracesTokensSayWhatTheWholeHeadSays) {
  test::SyntheticTraceOptions options = with_head();
  options.vocab_size = 400;
  const Trace whole(write("whole.h5", options));
  options.lm_head = false;
  options.lm_head_rows = true;
  const Trace rows(write("rows.h5", options));
  EXPECT_FALSE(rows.lm_head().has_value());
  ASSERT_EQ(LogitPath::missing(rows), "");
  EXPECT_EQ(LogitPath::missing(whole, LogitsOf::vocabulary), "");
  EXPECT_THAT(LogitPath::missing(rows, LogitsOf::vocabulary),
              AllOf(HasSubstr("only the output head's rows"), HasSubstr("--lm-head")));
  EXPECT_THROW((LogitPath{rows, LogitsOf::vocabulary}), WorkError);
  const LogitPath of_rows(rows), of_whole(whole);
  const std::vector<std::int32_t>& ids = rows.tokens().ids;
  ASSERT_EQ(ids, whole.tokens().ids);
  for (int token = 0; token < rows.length(); ++token) {
    const std::int32_t id = ids[rows.length() - 1 - token];
    EXPECT_TRUE(of_rows.gradient(token, id) == of_whole.gradient(token, id)) << token;
  }
  for (std::int32_t id = -1; id <= 400; ++id) {
    if (std::find(ids.begin(), ids.end(), id) != ids.end()) continue;
    EXPECT_THROW(of_rows.gradient(0, id), UsageError) << id;
  }
}

TEST_F(LogitPathTest, WhatATraceLacksIsSaidInALine) {
  test::SyntheticTraceOptions options = with_head();
  options.predictions = false;  // as traces were before the norm was stored
  const Trace old(write("old.h5", options));
  EXPECT_THAT(LogitPath::missing(old), HasSubstr("does not say what the last norm does"));
  EXPECT_THAT(LogitPath::missing(old), HasSubstr("--lm-head"));
  EXPECT_THROW(LogitPath{old}, WorkError);
  options = {};
  const Trace without(write("without.h5", options));
  EXPECT_THAT(LogitPath::missing(without), HasSubstr("no output head"));
  options.lm_head = true;
  options.output_weight = false;
  const Trace bare(write("bare.h5", options));
  EXPECT_THAT(LogitPath::missing(bare), HasSubstr("no output weights"));
  const Trace trace(write("t.h5", with_head()));
  const LogitPath path(trace);
  EXPECT_THROW(path.gradient(104, 0), UsageError);
  EXPECT_THROW(path.gradient(-1, 0), UsageError);
  EXPECT_THROW(path.gradient(0, 50), UsageError);
}

}  // namespace
}  // namespace kvloupe
