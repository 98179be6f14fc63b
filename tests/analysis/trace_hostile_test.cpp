// Traces that are broken, foreign, from the future, or lie.

#include "analysis/trace/trace_datasets.h"
#include "analysis/trace/trace_final_norm.h"
#include "analysis/trace/trace_probe.h"
#include "analysis/trace/trace_writer.h"
#include "tests/support/edited_trace.h"
#include "tests/support/probe_trace.h"
#include "tests/support/test.h"
#include "tests/support/walked_trace.h"

namespace kvloupe {
namespace {

using Path = fs::path;

using Edit = test::EditedTrace;
using Spoil = std::function<void(Edit&)>;

struct HostileTrace : testing::Test {
  /// The message of opening after `spoil`; "opened" if it succeeds.
  std::string after(const Spoil& spoil) {
    return after(spoil, {.prompt_length = 20, .generated = 4, .residual_change = true});
  }
  std::string after(const Spoil& spoil, const test::SyntheticTraceOptions& options) {
    test::write_synthetic_trace(path_, options);
    return spoiled(spoil);
  }
  std::string spoiled(const Spoil& spoil) {
    {
      Edit edit(path_);
      spoil(edit);
    }
    return message(path_);
  }
  /// With a dataset of this type and shape.
  std::string replaced(const char* path, hid_t type, const std::vector<hsize_t>& shape,
                       const std::vector<hsize_t>& chunk = {}) {
    return after([&](Edit& e) { e.replace(path, type, shape, chunk); });
  }
  std::string message(const Path& path) {
    try {
      const Trace trace(path);
    } catch (const FileError& error) {
      EXPECT_EQ(error.path, path.string());
      EXPECT_THAT(error.what(),
                  AllOf(HasSubstr(path.string() + ": "), HasSubstr(";"), Not(HasSubstr("\n"))));
      return error.what();
    }
    return "opened";
  }
  test::TemporaryFolder folder_;
  Path path_ = folder_ / "t.h5";
};

TEST_F(HostileTrace, NotATraceAtAll) {
  EXPECT_THAT(message(folder_ / "missing.h5"), HasSubstr("No such file"));
  EXPECT_THAT(message(folder_.path()), HasSubstr("is a folder"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("not a regular file"));
  std::ofstream(folder_ / "empty.h5").flush();
  EXPECT_THAT(message(folder_ / "empty.h5"), HasSubstr("not an HDF5 file"));
  std::ofstream(folder_ / "text.h5") << "hello\n";
  EXPECT_THAT(message(folder_ / "text.h5"), HasSubstr("not an HDF5 file"));
  H5Fclose(H5Fcreate((folder_ / "foreign.h5").c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT));
  EXPECT_THAT(message(folder_ / "foreign.h5"), HasSubstr("not a kvloupe trace"));
}

TEST_F(HostileTrace, NoPermission) {
  if (geteuid() == 0) GTEST_SKIP() << "root may read everything";
  std::ofstream(folder_ / "secret.h5") << "x";
  fs::permissions(folder_ / "secret.h5", fs::perms::none);
  EXPECT_THAT(message(folder_ / "secret.h5"), HasSubstr("Permission denied"));
}

TEST_F(HostileTrace, FromTheFutureOrUnfinished) {
  EXPECT_THAT(after([](Edit& e) { e.integer("/", "format_version", 3); }),
              HasSubstr("format_version 3"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/", "format_version", 0); }), Not("opened"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/", "complete", 0); }), HasSubstr("incomplete"));
  EXPECT_THAT(after([](Edit& e) { e.remove_attribute("/", "complete"); }), HasSubstr("complete"));
}

TEST_F(HostileTrace, NumbersThatCannotBe) {
  for (const char* name : {"num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size"}) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-3}, std::int64_t{1} << 40}) {
      EXPECT_THAT(after([&](Edit& e) { e.integer("/model", name, value); }), HasSubstr(name));
    }
    EXPECT_THAT(after([&](Edit& e) { e.remove_attribute("/model", name); }), HasSubstr(name));
    EXPECT_THAT(after([&](Edit& e) { e.real("/model", name, 1.5); }), HasSubstr("whole number"));
    EXPECT_THAT(after([&](Edit& e) { e.real("/model", name, NAN); }), HasSubstr("whole number"));
  }
  EXPECT_THAT(after([](Edit& e) { e.integer("/model", "num_kv_heads", 3); }),
              HasSubstr("does not divide"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/model", "num_layers", 3); }), HasSubstr("/layers/2"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/model", "head_dim", 8); }), HasSubstr("shape"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/run", "prompt_length", 21); }), HasSubstr("shape"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/run", "generated", INT64_MAX); }), Not("opened"));
  EXPECT_THAT(after([](Edit& e) { e.real("/run", "attention_scale", 0.0); }), Not("opened"));
  EXPECT_THAT(after([](Edit& e) { e.real("/run", "attention_scale", NAN); }), Not("opened"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/", "format", 7); }), HasSubstr("format"));
  EXPECT_THAT(after([](Edit& e) { e.integer("/model", "rope_pairing", 7); }), Not("opened"));
}

TEST_F(HostileTrace, DatasetsThatDisagree) {
  for (const char* path : {"/layers/1/key", "/layers/0/query", "/tokens/ids", "/layers/1"}) {
    EXPECT_THAT(after([&](Edit& e) { e.remove(path); }), HasSubstr(path));
  }
  EXPECT_THAT(replaced("/layers/0/key", H5T_NATIVE_INT, {2, 24, 16}), HasSubstr("int32"));
  EXPECT_THAT(replaced("/layers/0/key", H5T_NATIVE_FLOAT, {2, 24}), HasSubstr("[2, 24]"));
  EXPECT_THAT(replaced("/layers/0/key", H5T_NATIVE_FLOAT, {2, 24, 17}), HasSubstr("[2, 24, 17]"));
  EXPECT_THAT(replaced("/layers/0/key", H5T_NATIVE_FLOAT, {2, 24, 16}), HasSubstr("only 0 bytes"));
  EXPECT_THAT(replaced("/layers/0/key", H5T_NATIVE_FLOAT, {1ULL << 30, 1ULL << 30, 1ULL << 30}),
              HasSubstr("impossible shape"));
  EXPECT_THAT(replaced("/tokens/text", H5T_NATIVE_FLOAT, {24}), HasSubstr("text"));
  EXPECT_THAT(replaced("/run/blocks", H5T_NATIVE_INT, {0, 2}), HasSubstr("/run/blocks"));
  EXPECT_THAT(replaced("/layers/0/evicted_at", H5T_NATIVE_FLOAT, {2, 24}), HasSubstr("integers"));
  EXPECT_THAT(replaced("/predictions/token_ids", H5T_NATIVE_INT, {24, 0}), Not("opened"));
  EXPECT_THAT(
      after([](Edit& e) {
        H5Gclose(H5Gcreate2(e.file(), "/model/lm_head", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT));
      }),
      HasSubstr("/model/lm_head"));
}

TEST_F(HostileTrace, ALastNormThatDisagrees) {
  EXPECT_EQ(after([](Edit& e) { e.remove("/predictions/final_rms"); }), "opened");
  for (const char* path : {"/model/final_norm", "/predictions/final_rms"}) {
    EXPECT_THAT(replaced(path, H5T_NATIVE_FLOAT, {23}),
                HasSubstr(path + std::string(" has the shape [23]")));
    EXPECT_THAT(replaced(path, H5T_NATIVE_INT, {24}), HasSubstr("int32"));
  }
}

TEST_F(HostileTrace, RowsOfTheOutputHeadThatDisagree) {
  constexpr const char* kRows = "/model/lm_head_rows";
  constexpr const char* kIds = "/model/lm_head_row_ids";
  const auto spoiled = [&](const Spoil& spoil) {
    return after(spoil, {.prompt_length = 20, .generated = 4, .lm_head_rows = true});
  };
  ASSERT_EQ(spoiled([](Edit&) {}), "opened");
  std::vector<std::int32_t> good = Trace(path_).tokens().ids;
  std::sort(good.begin(), good.end());
  good.erase(std::unique(good.begin(), good.end()), good.end());
  ASSERT_GT(good.size(), 4U);
  const hsize_t count = good.size();
  const auto with_ids = [&](const std::vector<std::int32_t>& ids) {
    return spoiled([&](Edit& e) {
      e.replace(kIds, H5T_NATIVE_INT, {ids.size()});
      e.write(kIds, H5T_NATIVE_INT32, ids.data());
    });
  };
  const auto with = [&](std::size_t at, std::int32_t id) {
    std::vector<std::int32_t> ids = good;
    ids[at] = id;
    return with_ids(ids);
  };
  EXPECT_EQ(with_ids(good), "opened");
  EXPECT_THAT(with(1, good[0]), HasSubstr("they must ascend"));
  EXPECT_THAT(with(1, 49), HasSubstr("comes after id 49; they must ascend"));
  EXPECT_THAT(with(count - 1, 50), HasSubstr("is of id 50, outside the vocabulary of 50"));
  EXPECT_THAT(with(0, -1), HasSubstr("row 0 is of id -1, outside the vocabulary of 50"));
  std::size_t gap = 0;
  while (gap + 1 < good.size() && good[gap] + 1 == good[gap + 1]) ++gap;
  ASSERT_LT(gap + 1, good.size());
  EXPECT_THAT(with(gap, good[gap] + 1),
              HasSubstr("lacks the id " + std::to_string(good[gap]) + " of the sequence"));
  EXPECT_THAT(with_ids({good.begin(), good.end() - 1}), HasSubstr(std::string(kRows) + " has the"));
  EXPECT_THAT(with_ids(std::vector<std::int32_t>(25)), HasSubstr("but the trace has 24 tokens"));
  const auto replaced = [&](const char* name, hid_t type, std::vector<hsize_t> shape,
                            std::vector<hsize_t> chunk) {
    return spoiled([&](Edit& e) { e.replace(name, type, shape, chunk); });
  };
  EXPECT_THAT(replaced(kIds, H5T_NATIVE_INT, {0}, {}), HasSubstr(kIds));
  EXPECT_THAT(replaced(kIds, H5T_NATIVE_INT, {2, 12}, {}), HasSubstr("has the shape [2, 12]"));
  EXPECT_THAT(replaced(kIds, H5T_NATIVE_INT, {std::uint64_t{1} << 40}, {1024}), HasSubstr(kIds));
  EXPECT_THAT(replaced(kIds, H5T_NATIVE_FLOAT, {count}, {}), HasSubstr("not integers"));
  EXPECT_THAT(replaced(kRows, H5T_NATIVE_INT, {count, 24}, {}), HasSubstr("not floating-point"));
  EXPECT_THAT(replaced(kRows, H5T_NATIVE_FLOAT, {count, 23}, {}), HasSubstr(", 23], but the"));
  EXPECT_THAT(replaced(kRows, H5T_NATIVE_FLOAT, {count, 24}, {1, 24}),
              HasSubstr("only 0 bytes in the file"));
  for (const char* name : {kRows, kIds}) {
    EXPECT_EQ(spoiled([&](Edit& e) { e.remove(name); }), "opened");
    const Trace trace(path_);
    EXPECT_FALSE(trace.has_lm_head() || !trace.head_row_ids().empty())
        << "one without the other says nothing";
  }
  std::vector<float> numbers(count * 24, 1.0F);
  numbers[24] = NAN;
  ASSERT_EQ(spoiled([&](Edit& e) {
              e.replace(kRows, H5T_NATIVE_FLOAT, {count, 24});
              e.write(kRows, H5T_NATIVE_FLOAT, numbers.data());
            }),
            "opened");
  const Trace trace(path_);
  const TraceFinalNorm norm(trace);
  EXPECT_EQ(norm.head_row(good[0]).sum(), 24.0);
  EXPECT_THAT(test::error_of<FileError>([&] { norm.head_row(good[1]); }),
              HasSubstr("/model/lm_head_rows: row 1 has a number that is not finite"));
}

TEST_F(HostileTrace, HugeClaimsAreRefusedBeforeAnyAllocation) {
  // The attributes agree with the dataset, but nothing is stored: 2^31 tokens of 2^16 coordinates.
  const std::string text = after([](Edit& e) {
    e.integer("/model", "head_dim", 1 << 16);
    e.integer("/run", "prompt_length", INT32_MAX - 4);
    e.replace("/tokens/ids", H5T_NATIVE_INT, {INT32_MAX}, {1024});
    e.replace("/layers/0/query", H5T_NATIVE_FLOAT, {1, INT32_MAX, 1 << 16}, {1, 1, 1024});
  });
  EXPECT_THAT(text, HasSubstr("only 0 bytes in the file"));
  EXPECT_THAT(after([](Edit& e) {
                e.integer("/model", "vocab_size", INT32_MAX);
                e.replace("/model/lm_head", H5T_NATIVE_FLOAT, {INT32_MAX, 24}, {1024, 24});
              }),
              HasSubstr("only 0 bytes in the file"));
}

TEST_F(HostileTrace, VocabulariesThatDoNotFitTogether) {
  test::SyntheticTraceOptions options{.vocab_size = 104, .vocabulary = true};
  const auto with_ends = [&](std::int64_t second, std::int64_t last) {
    std::vector<std::int64_t> ends(104, 6);
    ends[1] = second;
    ends.back() = last;
    after([&](Edit& e) { e.write("/model/vocabulary/ends", H5T_NATIVE_INT64, ends.data()); },
          options);
    try {
      return Trace(path_).vocabulary()->front();
    } catch (const FileError& error) {
      return std::string(error.what());
    }
  };
  EXPECT_EQ(with_ends(6, 6), " wörd");
  EXPECT_THAT(with_ends(5, 6), HasSubstr("token 1 ends at 5, the one before it at 6"));
  EXPECT_THAT(with_ends(-1, 6), HasSubstr("token 1 ends at -1"));
  EXPECT_THAT(with_ends(6, std::int64_t{1} << 40), HasSubstr("token 103 ends at 1099511627776"));
  const auto shaped = [&](const char* what, std::vector<hsize_t> shape) {
    return after([&](Edit& e) { e.replace(what, H5T_NATIVE_INT64, shape); }, options);
  };
  EXPECT_THAT(shaped("/model/vocabulary/ends", {103}), HasSubstr("[103]"));
  EXPECT_EQ(shaped("/model/vocabulary/text", {0}), "opened") << "nothing is said: none";
  EXPECT_THAT(shaped("/model/vocabulary/text", {4, 4}), HasSubstr("[4, 4]"));
  EXPECT_THAT(shaped("/model/vocabulary/text", {std::uint64_t{1} << 40}), Not("opened"));
}

TEST_F(HostileTrace, StepsAndTokensOutOfRange) {
  const auto blocks = [&](std::vector<std::int32_t> bounds) {
    return after([&](Edit& e) {
      e.replace("/run/blocks", H5T_NATIVE_INT, {bounds.size() / 2, 2});
      e.write("/run/blocks", H5T_NATIVE_INT, bounds.data());
    });
  };
  EXPECT_EQ(blocks({0, 5, 5, 24}), "opened");
  EXPECT_THAT(blocks({0, 5, 6, 24}), HasSubstr("step 1"));
  EXPECT_THAT(blocks({0, 5, 5, 5, 5, 24}), HasSubstr("step 1"));
  EXPECT_THAT(blocks({0, 5, 5, 25}), HasSubstr("step 1"));
  EXPECT_THAT(blocks({-1, 24}), HasSubstr("step 0"));
  EXPECT_THAT(blocks({0, 20}), HasSubstr("token 20, but there are 24 tokens"));
  std::vector<std::int32_t> ids(24, 3);
  ids[9] = 50;
  EXPECT_THAT(after([&](Edit& e) { e.write("/tokens/ids", H5T_NATIVE_INT, ids.data()); }),
              HasSubstr("token 9 is 50"));
  ids[9] = -1;
  EXPECT_THAT(after([&](Edit& e) { e.write("/tokens/ids", H5T_NATIVE_INT, ids.data()); }),
              HasSubstr("token 9 is -1"));
  const std::vector<std::uint8_t> segments(24, 2);
  EXPECT_THAT(
      after([&](Edit& e) { e.write("/tokens/segment", H5T_NATIVE_UINT8, segments.data()); }),
      HasSubstr("segment 2"));
}

TEST_F(HostileTrace, EvictionsOutsideTheTrace) {
  const auto left_at = [&](std::size_t token, std::int32_t step) {
    const std::string text = after([&](Edit& e) {
      std::vector<std::int32_t> steps(2 * 24, -1);
      steps[token] = step;
      e.replace("/layers/0/evicted_at", H5T_NATIVE_INT, {2, 24});
      e.write("/layers/0/evicted_at", H5T_NATIVE_INT, steps.data());
    });
    EXPECT_EQ(text, "opened");
    return test::error_of<FileError>(
        [&] { Trace(folder_ / "t.h5").evicted_at(0, static_cast<int>(token / 24)); }, "read");
  };
  EXPECT_EQ(left_at(3, 0), "read");
  EXPECT_EQ(left_at(24 + 22, 3), "read");  // steps: the prompt, then 4 tokens
  EXPECT_EQ(left_at(24 + 22, 4), "read");
  EXPECT_THAT(left_at(24 + 22, 2), HasSubstr("token 22 of head 1 leaves at step 2"));
  EXPECT_THAT(left_at(0, 5), HasSubstr("token 0 of head 0 leaves at step 5"));
  EXPECT_THAT(left_at(0, -2), HasSubstr("leaves at step -2"));
}

TEST_F(HostileTrace, MergesThatAreNone) {
  struct Line {
    std::int32_t head, step, into, from;
    float weight;
  };
  const auto type_of = [](std::vector<const char*> members) {
    const hid_t type = H5Tcreate(H5T_COMPOUND, sizeof(Line));
    std::size_t offset = 0;
    for (const char* member : members) {
      H5Tinsert(type, member, offset, offset == 16 ? H5T_NATIVE_FLOAT : H5T_NATIVE_INT32);
      offset += 4;
    }
    return type;
  };
  const hid_t right = type_of({"head", "step", "into", "from", "weight"});
  const hid_t named_otherwise = type_of({"head", "step", "into", "out_of", "weight"});
  const hid_t mixed_up = type_of({"weight", "step", "into", "from", "head"});
  const char* path = "/layers/0/merges";
  const auto opened_as = [&](hid_t type, const std::vector<hsize_t>& shape,
                             const std::vector<hsize_t>& chunk = {}) {
    return replaced(path, type, shape, chunk);
  };
  EXPECT_THAT(opened_as(H5T_NATIVE_FLOAT, {3}), HasSubstr("not a list of compounds"));
  EXPECT_THAT(opened_as(right, {3, 2}), HasSubstr("not a list of compounds"));
  EXPECT_THAT(opened_as(named_otherwise, {3}), HasSubstr("no integer member 'from'"));
  EXPECT_THAT(opened_as(mixed_up, {3}), HasSubstr("no integer member 'head'"));
  EXPECT_THAT(opened_as(right, {1ULL << 40}, {1024}), HasSubstr("only 0 bytes"));
  EXPECT_EQ(opened_as(right, {0}), "opened");
  EXPECT_TRUE(Trace(folder_ / "t.h5").merges(0).empty());

  const auto read = [&](const Line& line) {
    EXPECT_EQ(after([&](Edit& e) {
                e.replace(path, right, {1});
                e.write(path, right, &line);
              }),
              "opened");
    return test::error_of<FileError>(
        [&] {
          const std::vector<MergedEntry> merges = Trace(folder_ / "t.h5").merges(0);
          EXPECT_EQ(merges, (std::vector<MergedEntry>{
                                {line.head, line.step, line.into, line.from, line.weight}}));
        },
        "read");
  };
  EXPECT_EQ(read({1, 4, 23, 22, 0.5F}), "read");
  for (const Line& wrong :
       {Line{2, 0, 0, 0, 1.0F}, Line{-1, 0, 0, 0, 1.0F}, Line{0, 5, 0, 0, 1.0F},
        Line{0, 0, 24, 0, 1.0F}, Line{0, 0, 0, -1, 1.0F}, Line{0, 0, 0, 0, NAN}}) {
    EXPECT_THAT(read(wrong), HasSubstr("outside the trace"));
  }
  for (const hid_t type : {right, named_otherwise, mixed_up}) H5Tclose(type);
}

TEST_F(HostileTrace, DataInOtherFilesIsRefused) {
  EXPECT_THAT(after([](Edit& e) {
                e.replace("/layers/0/key", H5T_NATIVE_FLOAT, {2, 24, 16}, {}, [](hid_t properties) {
                  H5Pset_external(properties, "/etc/passwd", 0, H5F_UNLIMITED);
                });
              }),
              HasSubstr("external storage"));
}

TEST_F(HostileTrace, LinksToOtherPlacesAreRefusedAtEveryStep) {
  const Path other = folder_ / "other.h5";
  test::write_synthetic_trace(other, {});
  for (const char* path : {"/layers/0/key", "/layers/0", "/layers", "/tokens/ids", "/model"}) {
    EXPECT_THAT(after([&](Edit& e) {
                  e.remove(path);
                  H5Lcreate_external(other.c_str(), path, e.file(), path, H5P_DEFAULT, H5P_DEFAULT);
                }),
                HasSubstr(std::string(path) + " is a link to another place"))
        << path;
  }
  EXPECT_THAT(after([](Edit& e) {
                e.remove("/layers/0/key");
                H5Lcreate_soft("/layers/1/key", e.file(), "/layers/0/key", H5P_DEFAULT,
                               H5P_DEFAULT);
              }),
              HasSubstr("/layers/0/key is a link"));
}

TEST_F(HostileTrace, NothingIsReadThatTheCheckOfAFileLeavesOut) {
  EXPECT_EQ(after([](Edit&) {}), "opened");
  const TraceDatasets datasets(folder_ / "t.h5");
  EXPECT_NO_THROW(datasets.guarded([&] { datasets.dataset("/layers/1/key"); }));
  EXPECT_THROW(datasets.guarded([&] { datasets.dataset("/layers/1/attention"); }),
               std::logic_error);
}

TEST_F(HostileTrace, StatesThatAreNotNumbersAreNamedWhenRead) {
  std::vector<float> values(2 * 24 * 16, 1.0F);
  values[24 * 16 + 5 * 16 + 2] = INFINITY;
  EXPECT_EQ(after([&](Edit& e) { e.write("/layers/1/key", H5T_NATIVE_FLOAT, values.data()); }),
            "opened");
  const Trace trace(folder_ / "t.h5");
  EXPECT_NO_THROW(trace.key(1, 0));
  EXPECT_THAT(test::error_of<WorkError>([&] { trace.key(1, 1); }),
              HasSubstr("key of layer 1, head 1, token 5"));
}

TEST_F(HostileTrace, ChangesOfTheResidualStreamThatDisagree) {
  const auto with = [&](hid_t type, const std::vector<hsize_t>& shape,
                        const std::vector<hsize_t>& chunk = {}) {
    return replaced("/layers/1/residual_change", type, shape, chunk);
  };
  EXPECT_THAT(with(H5T_NATIVE_FLOAT, {25}), HasSubstr("/layers/1/residual_change"));
  EXPECT_THAT(with(H5T_NATIVE_FLOAT, {2, 24}), HasSubstr("[2, 24]"));
  EXPECT_THAT(with(H5T_NATIVE_INT, {24}), HasSubstr("int32"));
  EXPECT_THAT(with(H5T_NATIVE_FLOAT, {24}), HasSubstr("only 0 bytes"));
  EXPECT_THAT(with(H5T_NATIVE_FLOAT, {1ULL << 40}, {1024}), HasSubstr("residual_change"));
  std::vector<float> changes(24, 1.0F);
  changes[7] = NAN;
  EXPECT_EQ(after([&](Edit& e) {
              e.remove("/layers/0/residual_change");
              e.write("/layers/1/residual_change", H5T_NATIVE_FLOAT, changes.data());
            }),
            "opened");
  const Trace trace(folder_ / "t.h5");
  EXPECT_FALSE(trace.has_residual_change()) << "layer 0 has none";
  EXPECT_THAT(test::error_of<WorkError>([&] { trace.residual_change(1); }),
              HasSubstr("residual_change of layer 1, token 7 is not a finite"));
}

struct HostileProbe : HostileTrace {
  /// As after(), of a trace with a probe: two passes of 3 + 10 tokens over a context of 20.
  std::string after_probe(const Spoil& spoil) {
    test::ProbeTraceOptions options;
    options.trace.prompt_length = 20;
    options.trace.generated = 4;
    options.part = 10;
    test::write_probe_trace(path_, options);
    return spoiled(spoil);
  }
};

TEST_F(HostileProbe, PartsThatAreMissingOrDisagree) {
  EXPECT_EQ(after_probe([](Edit&) {}), "opened");
  for (const char* path : {"/probe/ids", "/probe/passes", "/layers/1/probe_query",
                           "/layers/0/probe_key", "/layers/1/probe_input_norm"}) {
    EXPECT_THAT(after_probe([&](Edit& e) { e.remove(path); }), HasSubstr(path));
  }
  const auto replaced = [&](const char* path, hid_t type, std::vector<hsize_t> shape,
                            std::vector<hsize_t> chunk = {}) {
    return after_probe([&](Edit& e) { e.replace(path, type, shape, chunk); });
  };
  EXPECT_THAT(replaced("/layers/0/probe_query", H5T_NATIVE_FLOAT, {4, 25, 16}),
              HasSubstr("[4, 25, 16]"));
  EXPECT_THAT(replaced("/layers/0/probe_key", H5T_NATIVE_INT, {2, 26, 16}), HasSubstr("int32"));
  EXPECT_THAT(replaced("/layers/0/probe_key", H5T_NATIVE_FLOAT, {2, 26, 16}),
              HasSubstr("only 0 bytes"));
  EXPECT_THAT(replaced("/layers/1/probe_input_norm", H5T_NATIVE_FLOAT, {27}), HasSubstr("[27]"));
  EXPECT_THAT(replaced("/probe/ids", H5T_NATIVE_INT, {0}), HasSubstr("0 tokens"));
  EXPECT_THAT(replaced("/probe/ids", H5T_NATIVE_INT, {1ULL << 40}, {1024}),
              HasSubstr("/probe/ids"));
  EXPECT_THAT(replaced("/probe/ids", H5T_NATIVE_INT, {1ULL << 29}, {1024}),
              HasSubstr("only 0 bytes"));
  EXPECT_THAT(replaced("/probe/passes", H5T_NATIVE_INT, {1ULL << 40, 4}, {1024, 4}),
              HasSubstr("only 0 bytes"));
  EXPECT_THAT(replaced("/probe/passes", H5T_NATIVE_INT, {2, 3}), HasSubstr("/probe/passes"));
  EXPECT_THAT(after_probe([](Edit& e) { e.remove_attribute("/probe", "context_end"); }),
              HasSubstr("context_end"));
  for (const int end : {-1, 0, 21, 19}) {
    EXPECT_NE(after_probe([&](Edit& e) { e.integer("/probe", "context_end", end); }), "opened");
  }
  EXPECT_EQ(after_probe([](Edit& e) { e.remove_attribute("/probe", "kind"); }), "opened");
}

TEST_F(HostileProbe, PassesThatDoNotFollowOneAnother) {
  const auto with = [&](std::vector<std::int32_t> bounds) {
    return after_probe([&](Edit& e) { e.write("/probe/passes", H5T_NATIVE_INT32, bounds.data()); });
  };
  EXPECT_EQ(with({0, 13, 0, 10, 13, 26, 10, 20}), "opened");
  EXPECT_EQ(with({0, 13, 4, 10, 13, 26, 10, 20}), "opened") << "a chat template before the text";
  for (const auto& bounds :
       std::vector<std::vector<std::int32_t>>{{1, 13, 0, 10, 13, 26, 10, 20},
                                              {0, 13, 0, 10, 14, 26, 10, 20},
                                              {0, 13, 0, 10, 13, 25, 10, 20},
                                              {0, 13, 0, 10, 13, 27, 10, 20},
                                              {0, 13, 0, 10, 13, 26, 11, 20},
                                              {0, 13, 0, 10, 13, 26, 10, 19},
                                              {0, 13, 0, 10, 13, 26, 10, 21},
                                              {0, 13, -1, 10, 13, 26, 10, 20},
                                              {0, 13, 10, 10, 13, 26, 10, 20},
                                              {0, 7, 0, 10, 7, 26, 10, 20},
                                              {0, 0, 0, 10, 0, 26, 10, 20},
                                              {0, INT32_MAX, INT32_MIN, 10, 13, 26, 10, 20}}) {
    EXPECT_THAT(with(bounds), HasSubstr("/probe/passes"));
  }
  std::vector<std::int32_t> ids(26, 3);
  ids[25] = 50;
  EXPECT_THAT(after_probe([&](Edit& e) { e.write("/probe/ids", H5T_NATIVE_INT32, ids.data()); }),
              HasSubstr("/probe/ids: token 25 is 50"));
}

TEST_F(HostileProbe, StatesThatAreNotNumbersAreNamedWhenRead) {
  std::vector<float> keys(2 * 26 * 16, 1.0F), norms(26, 1.0F);
  keys[26 * 16 + 7 * 16 + 2] = NAN;
  norms[9] = -1.0F;
  EXPECT_EQ(after_probe([&](Edit& e) {
              e.write("/layers/1/probe_key", H5T_NATIVE_FLOAT, keys.data());
              e.write("/layers/0/probe_input_norm", H5T_NATIVE_FLOAT, norms.data());
            }),
            "opened");
  const Trace trace(folder_ / "t.h5");
  const TraceProbe probe(trace);
  EXPECT_NO_THROW(probe.key(1, 0));
  const auto error = [](const std::function<void()>& work) {
    return test::error_of<WorkError>(work);
  };
  EXPECT_THAT(error([&] { probe.key(1, 1); }),
              HasSubstr("probe_key of layer 1, head 1, token 7 is not a finite number"));
  EXPECT_THAT(error([&] { probe.input_norm(0); }),
              HasSubstr("probe_input_norm of layer 0, token 9"));
  EXPECT_THROW(probe.query(2, 0), UsageError);
  EXPECT_THROW(probe.query(0, 4), UsageError);
}

constexpr int kRead = 0, kRefused = 1, kOtherException = 2;

/// Reads a trace that passed a walk in a child process with little memory and time, so that
/// whatever the HDF5 library still does with damage cannot hide. Returns the child's wait status.
int read_in_child(const Path& path) {
  if (test::walk_in_child(path) != test::Walked::passed) return W_EXITCODE(kRefused, 0);
  const pid_t child = fork();
  if (child == 0) {
#if !defined(__SANITIZE_ADDRESS__)
    const rlimit memory{std::size_t{4} << 30, std::size_t{4} << 30};
    setrlimit(RLIMIT_AS, &memory);
#endif
    const rlimit core{0, 0};
    setrlimit(RLIMIT_CORE, &core);
    alarm(10);
    int code = kRead;
    try {
      test::read_everything(Trace(path));
    } catch (const FileError&) {
      code = kRefused;
    } catch (const WorkError&) {
      code = kRefused;
    } catch (const UsageError&) {
      code = kRefused;
    } catch (...) {
      code = kOtherException;
    }
    std::_Exit(code);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return -1;
  return status;
}

struct DamagedTrace : ::testing::Test {
  void SetUp() override {
    test::write_synthetic_trace(folder_ / "good.h5", {.layers = 1,
                                                      .head_dim = 4,
                                                      .hidden_size = 4,
                                                      .prompt_length = 12,
                                                      .generated = 2,
                                                      .attention = true,
                                                      .lm_head = true,
                                                      .vocabulary = true,
                                                      .evicted_at = true});
    good_ = test::file_text(folder_ / "good.h5");
    ASSERT_EQ(read_in_child(folder_ / "good.h5"), 0);
  }
  void expect_survives(const std::string& bytes, const std::string& what) {
    const Path path = folder_ / "bad.h5";
    std::ofstream(path, std::ios::binary) << bytes;
    const int status = read_in_child(path);
    EXPECT_TRUE(WIFEXITED(status)) << what << ": signal " << WTERMSIG(status);
    EXPECT_NE(WEXITSTATUS(status), kOtherException) << what;
    if (!WIFEXITED(status))
      fs::copy_file(path, "/tmp/crash-" + what + ".h5", fs::copy_options::overwrite_existing);
    if (WIFEXITED(status)) ++(WEXITSTATUS(status) == kRead ? read_ : refused_);
  }
  /// Changes up to 16 bytes of it, so many times.
  void expect_survives_damage(const std::string& good, int times, std::uint32_t seed,
                              const std::string& what) {
    std::mt19937 random(seed);
    for (int i = 0; i < times; ++i) {
      std::string bytes = good;
      const int changes = 1 << (random() % 5);
      for (int change = 0; change < changes; ++change) {
        bytes[random() % bytes.size()] = static_cast<char>(random() % 256);
      }
      expect_survives(bytes, what + std::to_string(i));
    }
  }
  test::TemporaryFolder folder_;
  std::string good_;
  int read_ = 0, refused_ = 0;
};

TEST_F(DamagedTrace, TruncatedAnywhereIsRefused) {
  for (int i = 0; i < 60; ++i) {
    const std::size_t length = good_.size() * static_cast<std::size_t>(i) / 60;
    expect_survives(good_.substr(0, length), "truncated to " + std::to_string(length));
  }
  EXPECT_EQ(read_, 0);
}

TEST_F(DamagedTrace, AnyDamagedBytesAreReadOrRefusedButNeverCrash) {
  expect_survives_damage(good_, 400, 20240607, "case ");
  EXPECT_GT(refused_, 50);
}

// Layers without a cache, latent and shared caches, a gate.
TEST_F(DamagedTrace, SoAreThoseOfLayersOfEveryKind) {
  const Path kinds = Path(KVLOUPE_SOURCE_DIR) / "tests/fuzz/seeds/trace/good-kinds";
  ASSERT_EQ(read_in_child(kinds), 0);
  expect_survives_damage(test::file_text(kinds), 200, 20261127, "kinds ");
  EXPECT_GT(refused_, 25);
}

}  // namespace
}  // namespace kvloupe
