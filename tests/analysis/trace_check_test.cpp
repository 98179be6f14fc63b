// Traces that a child process tries before this one opens them.
#include "analysis/trace/trace_check.h"

#include <fcntl.h>
#include <sys/ptrace.h>

#include "tests/support/edited_trace.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

const fs::path kProgram = fs::path(KVLOUPE_BIN_DIR) / "kvloupe";

void write_bytes(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

/// A trace in the older metadata, which has no checksums, whose attribute `format` refers to an
/// object of its heap that is not there: HDF5 1.10 reads far beyond the heap.
void write_crashing_trace(const fs::path& path) {
  constexpr const char* kText = "kvloupe-trace";
  const hid_t file = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const hid_t space = H5Screate(H5S_SCALAR);
  const hid_t id = H5Acreate2(file, "format", type, space, H5P_DEFAULT, H5P_DEFAULT);
  H5Awrite(id, type, &kText);
  H5Aclose(id);
  H5Sclose(space);
  H5Tclose(type);
  H5Fclose(file);
  std::string bytes = test::file_text(path);
  // The reference: length (4), address of the heap (8), index (4).
  const std::string length("\x0d\0\0\0", 4), one("\1\0\0\0", 4);
  bool found = false;
  for (std::size_t at = bytes.find(length); at + 16 <= bytes.size() && !found;
       at = bytes.find(length, at + 1)) {
    found = bytes.compare(at + 12, 4, one) == 0;
    if (found) bytes.replace(at + 12, 4, "\xff\xff\xff\x7f");
  }
  ASSERT_TRUE(found);
  write_bytes(path, bytes);
}

struct TraceCheck : testing::Test {
  void SetUp() override {
    if (!fs::exists(kProgram)) GTEST_SKIP() << "kvloupe is not built";
    check_with(kProgram.string());
  }
  void TearDown() override { set_trace_checks({}, {}); }

  void check_with(const std::string& program) { set_trace_checks(program, list_); }
  /// A program for checks that writes down that it was started, and goes on with `script`.
  std::string program(const std::string& script) {
    const fs::path path = folder_ / "checker";
    std::ofstream(path) << "#!/bin/sh\necho >> " << (folder_ / "starts").string() << "\n"
                        << script << "\n";
    fs::permissions(path, fs::perms::owner_all);
    return path.string();
  }
  std::string counted_program() { return program("exec " + kProgram.string() + " \"$@\""); }
  std::size_t starts() const { return test::file_text(folder_ / "starts").size(); }

  fs::path good(const std::string& name = "good.h5") {
    test::SyntheticTraceOptions options{.prompt_length = 20,
                                        .generated = 4,
                                        .attention = true,
                                        .lm_head = true,
                                        .vocabulary = true,
                                        .evicted_at = true};
    const fs::path path = folder_ / name;
    test::write_synthetic_trace(path, options);
    return path;
  }
  /// The same, written by a program that keeps no list of what it wrote.
  fs::path unknown() {
    set_trace_checks({}, {});
    return good();
  }
  /// The message of opening; "opened" if it succeeds.
  static std::string message(const fs::path& path) {
    try {
      const Trace trace(path);
    } catch (const FileError& error) {
      EXPECT_EQ(error.path, path.string());
      EXPECT_THAT(error.what(), AllOf(HasSubstr(path.string() + ": "), Not(HasSubstr("\n")),
                                      Not(HasSubstr("/proc"))));
      return error.what();
    }
    return "opened";
  }

  /// HDF5 1.10 crashes on this file, and kvloupe says one line.
  static void expect_refused(const fs::path& path) {
    EXPECT_THAT(message(path), Not("opened"));
#if !H5_VERSION_GE(1, 12, 0)
    EXPECT_THAT(message(path), AllOf(HasSubstr("made the HDF5 library crash in a test process ("),
                                     HasSubstr("capture or convert the trace again")));
    const pid_t child = fork();  // without the check it would end this program
    if (child == 0) {
      const rlimit core{0, 0};
      setrlimit(RLIMIT_CORE, &core);
      set_trace_checks({}, {});
      try {
        const Trace trace(path);
      } catch (const FileError&) {
      }
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    // A signal; with a sanitizer, another exit code.
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "this file harms nobody: the test tests nothing";
#endif
  }

  test::TemporaryFolder folder_;
  fs::path list_ = folder_ / "cache/checked-traces";
};

TEST_F(TraceCheck, AFileThatCrashesHdf5IsRefusedWithOneLine) {
  const fs::path path = folder_ / "crash.h5";
  write_crashing_trace(path);
  expect_refused(path);
}

TEST_F(TraceCheck, AFileThatFuzzingFoundIsRefusedWithOneLine) {
  // An object of its text heap is said to be larger than the heap, by far.
  expect_refused(fs::path(KVLOUPE_SOURCE_DIR) / "tests/fuzz/seeds/trace/heap-object-beyond-heap");
}

TEST_F(TraceCheck, WhatIsWrongInsideIsSaidAsEver) {
  const fs::path path = good();
  fs::resize_file(path, fs::file_size(path) / 2);
  EXPECT_THAT(message(path), HasSubstr("truncated or damaged"));
  write_bytes(path, "hello");
  EXPECT_THAT(message(path), HasSubstr("not an HDF5 file"));
  EXPECT_THAT(message(folder_ / "missing.h5"), HasSubstr("No such file"));
  EXPECT_THAT(message(folder_.path()), HasSubstr("is a folder"));
  EXPECT_THAT(message("/dev/null"), HasSubstr("not a regular file"));
}

TEST_F(TraceCheck, AFileThatAnotherProgramWritesIsSaidToBeOpen) {
  const fs::path path = folder_ / "open.h5";
  const hid_t latest = H5Pcreate(H5P_FILE_ACCESS);
  H5Pset_libver_bounds(latest, H5F_LIBVER_LATEST, H5F_LIBVER_LATEST);
  const pid_t other = fork();
  if (other == 0) {
    H5Fflush(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, latest), H5F_SCOPE_GLOBAL);
    _exit(0);  // without closing it
  }
  waitpid(other, nullptr, 0);
  H5Pclose(latest);
  EXPECT_THAT(message(path), HasSubstr("is open for writing in another program"));
}

TEST_F(TraceCheck, AGoodFileIsTriedOnceAndKnownAtTheNextStart) {
  const fs::path path = unknown();
  const std::string counted = counted_program();
  check_with(counted);
  EXPECT_EQ(message(path), "opened");
  EXPECT_EQ(starts(), 1U);
  EXPECT_EQ(message(path), "opened");
  EXPECT_EQ(starts(), 1U);
  check_with(counted);  // as in a new process
  EXPECT_EQ(message(path), "opened");
  EXPECT_EQ(starts(), 1U);
  // Other content, and also the same content written again: another file.
  std::string bytes = test::file_text(path);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(path, bytes);
  message(path);
  EXPECT_EQ(starts(), 2U);
}

TEST_F(TraceCheck, TimesThatWereSetBackHideNoChange) {
  const fs::path path = unknown();
  check_with(counted_program());
  EXPECT_EQ(message(path), "opened");
  const auto time = fs::last_write_time(path);
  std::string bytes = test::file_text(path);
  bytes[bytes.size() / 2] ^= 1;
  write_bytes(path, bytes);
  fs::last_write_time(path, time);
  message(path);
  EXPECT_EQ(starts(), 2U);
}

TEST_F(TraceCheck, WhatThisProgramWroteIsKnown) {
  check_with(counted_program());
  const fs::path path = good();
  EXPECT_EQ(message(path), "opened");
  EXPECT_EQ(starts(), 0U);
  fs::copy_file(path, folder_ / "copy.h5");
  EXPECT_EQ(message(folder_ / "copy.h5"), "opened");
  EXPECT_EQ(starts(), 1U) << "a claim inside the file would not be enough";
}

/// Starts a program that looks into a trace, and stops it as it starts its checker: then `change`
/// is called. `cache`: its folder of known traces. Its exit code; −1 where no process may be traced
/// here.
int exit_code_with_change(const fs::path& program, const fs::path& trace, const fs::path& cache,
                          const std::function<void()>& change) {
  const pid_t id = fork();
  if (id == 0) {
    if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(99);
    setenv("XDG_CACHE_HOME", cache.c_str(), 1);
    execl(program.c_str(), program.c_str(), "info", trace.c_str(), nullptr);
    _exit(98);
  }
  int status = 0;
  waitpid(id, &status, 0);
  if (!WIFSTOPPED(status)) return WEXITSTATUS(status) == 99 ? -1 : WEXITSTATUS(status);
  ptrace(PTRACE_SETOPTIONS, id, nullptr, PTRACE_O_TRACEVFORK);
  ptrace(PTRACE_CONT, id, nullptr, nullptr);
  while (waitpid(id, &status, 0) == id && WIFSTOPPED(status)) {
    if (status >> 8 != (SIGTRAP | PTRACE_EVENT_VFORK << 8)) {
      ptrace(PTRACE_CONT, id, nullptr, WSTOPSIG(status));
      continue;
    }
    change();
    unsigned long child = 0;
    ptrace(PTRACE_GETEVENTMSG, id, nullptr, &child);
    waitpid(static_cast<pid_t>(child), &status, __WALL);
    ptrace(PTRACE_DETACH, static_cast<pid_t>(child), nullptr, nullptr);
    ptrace(PTRACE_DETACH, id, nullptr, nullptr);
    waitpid(id, &status, 0);
    break;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_F(TraceCheck, AnUpgradeOfTheProgramUnderWayChangesNothing) {
  const fs::path path = unknown();
  // The window checks by itself; kvloupe-capture by the window's program beside it.
  for (const std::string name : {"kvloupe", "other"}) {
    for (const bool replaced : {false, true}) {
      fs::copy_file(kProgram, folder_ / "kvloupe", fs::copy_options::overwrite_existing);
      if (name == "other")
        fs::copy_file(kProgram, folder_ / name, fs::copy_options::overwrite_existing);
      bool changed = false;
      const fs::path cache = folder_ / (name + (replaced ? "-replaced" : "-removed"));
      const int code = exit_code_with_change(folder_ / name, path, cache, [&] {
        changed = true;
        for (const char* file : {"kvloupe", "other"}) {
          fs::remove(folder_ / file);
          if (replaced) fs::copy_file("/bin/false", folder_ / file);
        }
      });
      if (code == -1) GTEST_SKIP() << "no process may be traced here";
      EXPECT_TRUE(changed) << "nothing was checked";
      EXPECT_EQ(code, 0) << name << (replaced ? " replaced" : " removed");
    }
  }
}

TEST_F(TraceCheck, ADamagedListIsIgnoredAndGrowsOnlySoFar) {
  const fs::path path = unknown();
  fs::create_directories(list_.parent_path());
  write_bytes(list_, std::string("\0\xff garbage without an end", 26));
  const std::string counted = counted_program();
  check_with(counted);
  EXPECT_EQ(message(path), "opened");
  check_with(counted);
  EXPECT_EQ(message(path), "opened");
  EXPECT_EQ(starts(), 1U) << "the line stands in the list, whatever stands before it";

  KnownTraces known(list_);
  const auto made = [](int i) {
    std::string text = std::to_string(i);
    return std::string(64 - text.size(), 'a') + text;
  };
  for (int i = 0; i < 6000; ++i) known.add(made(i));
  EXPECT_LT(fs::file_size(list_), 300'000U);
  KnownTraces later(list_);
  EXPECT_TRUE(later.knows(made(5999)));
  EXPECT_TRUE(later.knows(made(5000)));
  EXPECT_FALSE(later.knows(made(0)));
  EXPECT_FALSE(later.knows(made(5999).substr(1)));
  EXPECT_FALSE(later.knows(""));
}

TEST_F(TraceCheck, AListThatOthersCouldWriteIsNotTrusted) {
  const std::string mark(64, '7');
  { KnownTraces(list_).add(mark); }
  EXPECT_TRUE(KnownTraces(list_).knows(mark));
  struct stat status {};
  ASSERT_EQ(stat(list_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  fs::permissions(list_, fs::perms::others_write, fs::perm_options::add);
  EXPECT_FALSE(KnownTraces(list_).knows(mark));
  fs::permissions(list_, fs::perms::others_write, fs::perm_options::remove);
  const fs::path link = folder_ / "link";
  fs::create_symlink(list_, link);
  EXPECT_FALSE(KnownTraces(link).knows(mark));
  // A list that cannot be there: nothing is lost but time.
  KnownTraces nowhere("/proc/no/such/list");
  nowhere.add(mark);
  EXPECT_TRUE(nowhere.knows(mark));
}

TEST_F(TraceCheck, HoweverTheTrialEndsThereIsOneLine) {
  const fs::path path = unknown();
  const auto said = [&](const std::string& script) {
    check_with(program(script));
    return message(path);
  };
  EXPECT_THAT(said("kill -SEGV $$"),
              HasSubstr("made the HDF5 library crash in a test process (Segmentation fault"));
  EXPECT_THAT(said("kill -ABRT $$"),
              HasSubstr("made the HDF5 library crash in a test process (Aborted"));
  EXPECT_THAT(said("kill -XCPU $$"), HasSubstr("cannot be opened within 10 s"));
  EXPECT_THAT(said("exit 3"),
              HasSubstr("made the HDF5 library crash in a test process (exit code 3"));
  EXPECT_THAT(said("echo good; kill -SEGV $$"), HasSubstr("crash in a test"));
  EXPECT_THAT(said("printf 'refused: has \\033[31m colours'"), HasSubstr("has ?[31m colours"));
  EXPECT_THAT(said("echo nonsense"),
              HasSubstr("made the HDF5 library crash in a test process (exit code 0"));
  EXPECT_EQ(said("echo good"), "opened");
  check_with("/no/such/program");
  fs::copy_file(path, folder_ / "copy.h5");
  EXPECT_THAT(message(folder_ / "copy.h5"),
              AllOf(HasSubstr("cannot be checked"), HasSubstr("/no/such/program")));
}

TEST_F(TraceCheck, AnOpeningThatTakesLongCanBeCancelled) {
  const fs::path path = unknown();
  check_with(program("exec sleep 60"));
  Progress progress;
  std::thread later([&] {
    while (!fs::exists(folder_ / "starts")) std::this_thread::yield();
    progress.cancel();
  });
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THROW(check_trace(path, progress), Cancelled);
  later.join();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST_F(TraceCheck, SeveralThreadsOpenOneFile) {
  const fs::path path = unknown();
  check_with(kProgram.string());
  std::vector<std::thread> threads;
  std::vector<std::string> said(8);
  for (std::string& text : said) threads.emplace_back([&] { text = message(path); });
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : said) EXPECT_EQ(text, "opened");
}

using Change = std::function<void(hid_t)>;

void replace(const fs::path& path, const char* name, hid_t type, const std::vector<hsize_t>& shape,
             const std::vector<hsize_t>& chunk, const Change& filters, const Change& fill = {}) {
  test::EditedTrace(path).replace(name, type, shape, chunk, filters, fill);
}

/// Writes the corner of a dataset that has this shape.
void write_corner(hid_t id, hid_t type, const std::vector<hsize_t>& shape, const void* data) {
  const std::vector<hsize_t> start(shape.size(), 0);
  const hid_t space = H5Dget_space(id);
  const hid_t part = H5Screate_simple(static_cast<int>(shape.size()), shape.data(), nullptr);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, shape.data(), nullptr);
  H5Dwrite(id, type, part, space, H5P_DEFAULT, data);
  H5Sclose(part);
  H5Sclose(space);
}

void gzip(hid_t properties) { H5Pset_deflate(properties, 6); }
void checksum(hid_t properties) { H5Pset_fletcher32(properties); }
void gzip_shuffle_checksum(hid_t properties) {
  H5Pset_shuffle(properties);
  gzip(properties);
  checksum(properties);
}
void shuffle_whole_chunks(hid_t properties) {
  H5Pset_chunk_opts(properties, H5D_CHUNK_DONT_FILTER_PARTIAL_CHUNKS);
  H5Pset_shuffle(properties);
}

/// Traces as h5py writes them, with packed datasets.
struct PackedTrace : TraceCheck {
  static constexpr hsize_t kHeads = 2, kTokens = 24, kWidth = 16;
  static constexpr const char* kKey = "/layers/0/key";
  static inline const std::vector<hsize_t> kShape = {kHeads, kTokens, kWidth};
  static inline const std::vector<hsize_t> kHead = {1, kTokens, kWidth};

  /// /layers/0/key is packed, one chunk a head; `chunk` is written in place of the first one's
  /// bytes where it is not empty.
  fs::path packed(const std::string& chunk, const Change& filters = gzip_shuffle_checksum,
                  std::uint32_t skipped = 0) {
    const fs::path path = unknown();
    const std::vector<float> values(kHeads * kTokens * kWidth, 0.5F);
    replace(path, kKey, H5T_IEEE_F32LE, kShape, kHead, filters, [&](hid_t id) {
      H5Dwrite(id, H5T_NATIVE_FLOAT, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
      const hsize_t at[] = {0, 0, 0};
      if (!chunk.empty()) H5Dwrite_chunk(id, H5P_DEFAULT, skipped, at, chunk.size(), chunk.data());
    });
    check_with(kProgram.string());
    return path;
  }
  /// Numbers that differ, [heads,tokens,width].
  static std::vector<double> wave() {
    std::vector<double> values(kHeads * kTokens * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
    return values;
  }
  static void write_wave(hid_t id) {
    H5Dwrite(id, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, wave().data());
  }
};

TEST_F(PackedTrace, GzipShuffleAndChecksumsAreRead) {
  const Trace trace(packed(""));
  EXPECT_EQ(trace.key(0, 1)(3, 3), 0.5F);
}

TEST_F(PackedTrace, OtherFiltersAreRefused) {
  EXPECT_THAT(
      message(packed("", [](hid_t properties) { H5Pset_nbit(properties); })),
      AllOf(HasSubstr("/layers/0/key is packed with HDF5's filter 5"), HasSubstr("h5repack")));
}

TEST_F(PackedTrace, AChunkThatUnpacksToLessOrMoreIsRefused) {
  constexpr std::size_t kBytes = kTokens * kWidth * sizeof(float);
  const auto said = [&](const std::string& chunk, std::uint32_t skipped = 0b111) {  // unfiltered
    return message(packed(chunk, gzip_shuffle_checksum, skipped));
  };
  EXPECT_EQ(said(std::string(kBytes, '\0')), "opened");
  EXPECT_THAT(said(std::string(kBytes - 4, '\0')),
              HasSubstr("the chunk at [0, 0, 0] unpacks to 1532 bytes, not 1536"));
  EXPECT_THAT(said(std::string(4 * kBytes, '\0')), HasSubstr("is too large"));
  EXPECT_THAT(said("not gzip at all, nothing of it", 0b100), HasSubstr("cannot be unpacked"));
}

TEST_F(PackedTrace, EveryPartIsReadAsItWasWrittenWhateverTypeAndChunksItHas) {
  const std::vector<double> values = wave();
  for (const hid_t type : {H5T_IEEE_F32LE, H5T_IEEE_F64BE}) {
    for (const std::vector<hsize_t>& chunk :
         {std::vector<hsize_t>{1, 24, 16}, {2, 7, 5}, {1, 1, 16}, {2, 24, 3}}) {
      for (const auto filters : {gzip_shuffle_checksum, checksum, shuffle_whole_chunks}) {
        const fs::path path = unknown();
        replace(path, kKey, type, kShape, chunk, filters, write_wave);
        const Trace trace(path);
        const Matrix part = trace.keys(0, {5, 9});
        for (int head = 0; head < 2; ++head) {
          const Matrix key = trace.key(0, head);
          for (const auto& [t, i] : test::cells(24, 16)) {
            ASSERT_EQ(key(t, i), static_cast<float>(values[(head * 24 + t) * 16 + i]));
            if (t < 5 || t >= 9) continue;
            ASSERT_EQ(part(head * 4 + t - 5, i), key(t, i));
          }
        }
      }
    }
  }
}

TEST_F(PackedTrace, AnAbsentChunkHoldsTheFillValue) {
  const fs::path path = unknown();
  const std::vector<double> values = wave();
  const auto filled = [](hid_t properties) {
    gzip(properties);
    const float value = 0.25F;
    H5Pset_fill_value(properties, H5T_NATIVE_FLOAT, &value);
  };
  replace(path, kKey, H5T_IEEE_F32LE, kShape, kHead, filled,
          [&](hid_t id) { write_corner(id, H5T_NATIVE_DOUBLE, kHead, values.data()); });
  const Trace trace(path);
  EXPECT_EQ(trace.key(0, 0)(3, 3), static_cast<float>(values[3 * 16 + 3]));
  EXPECT_EQ(trace.key(0, 1), Matrix::Constant(24, 16, 0.25F));
}

TEST_F(PackedTrace, ADamagedChunkInTheMiddleIsRefusedWhenItIsRead) {
  const auto after = [&](const Change& filters, const std::string& chunk) {
    const fs::path path = unknown();
    replace(path, kKey, H5T_IEEE_F32LE, kShape, {1, 8, 16}, filters, [&](hid_t id) {
      write_wave(id);
      const hsize_t at[] = {0, 8, 0};
      H5Dwrite_chunk(id, H5P_DEFAULT, 0, at, chunk.size(), chunk.data());
    });
    check_with(kProgram.string());
    const Trace trace(path);  // opens at once: neither the first nor the last number is in it
    set_trace_checks({}, {});
    EXPECT_NO_THROW(trace.key(0, 1));
    return test::error_of<FileError>([&] { trace.key(0, 0); }, "read");
  };
  EXPECT_THAT(after(gzip, "no gzip"), HasSubstr("the chunk at [0, 8, 0] cannot be unpacked"));
  EXPECT_THAT(after(checksum, std::string(8 * 16 * 4, 'x') + "1234"),
              HasSubstr("the chunk at [0, 8, 0] has another checksum than it should"));
  EXPECT_THAT(after(checksum, "xyz"), HasSubstr("the chunk at [0, 8, 0] has no checksum"));
  // 64 bytes of zeros, packed: HDF5 1.10 would read 448 bytes beyond them.
  EXPECT_THAT(after(gzip, std::string("\x78\x9c\x63\x60\xa0\x0c\0\0\0\x40\0\x01", 12)),
              HasSubstr("the chunk at [0, 8, 0] unpacks to 64 bytes, not 512"));
}

TEST_F(PackedTrace, TextsOfVariableLengthMayNotBePacked) {
  const fs::path path = unknown();
  const hid_t type = H5Tcopy(H5T_C_S1);
  H5Tset_size(type, H5T_VARIABLE);
  const std::vector<const char*> texts(24, "a");
  replace(path, "/tokens/text", type, {24}, {24}, gzip,
          [&](hid_t id) { H5Dwrite(id, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, texts.data()); });
  H5Tclose(type);
  EXPECT_THAT(message(path), HasSubstr("/tokens/text is packed, but its texts are not of one"));
}

TEST_F(PackedTrace, ADatasetThatKvloupeDoesNotReadMayBePackedAsItLikes) {
  const fs::path path = unknown();
  replace(path, "/mine", H5T_NATIVE_INT, {64}, {64}, [](hid_t packed) { H5Pset_nbit(packed); });
  check_with(kProgram.string());
  EXPECT_EQ(message(path), "opened");
}

TEST_F(PackedTrace, ADatasetOfWhichNothingIsThereIsRefused) {
  // Found by mutation: HDF5 reads at address null. Here: a packed dataset of which nothing is
  // there.
  const fs::path path = unknown();
  replace(path, kKey, H5T_IEEE_F32LE, kShape, kShape, [](hid_t properties) {
    gzip(properties);
    H5Pset_fill_time(properties, H5D_FILL_TIME_NEVER);
  });
  EXPECT_THAT(message(path), HasSubstr("only 0 bytes in the file"));
}

TEST_F(PackedTrace, TerabytesInAFewBytesAreRefused) {
  // All attributes agree with 2^31 tokens; of the packed dataset one chunk of zeros is stored.
  const fs::path path = unknown();
  const hid_t file = H5Fopen(path.c_str(), H5F_ACC_RDWR, H5P_DEFAULT);
  H5Adelete_by_name(file, "/run", "prompt_length", H5P_DEFAULT);
  const hid_t one = H5Screate(H5S_SCALAR);
  const hid_t length = H5Acreate_by_name(file, "/run", "prompt_length", H5T_NATIVE_INT64, one,
                                         H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  const std::int64_t prompt = INT32_MAX - 4;
  H5Awrite(length, H5T_NATIVE_INT64, &prompt);
  H5Aclose(length);
  H5Sclose(one);
  for (const char* name : {"/tokens/text", "/tokens/segment", "/run/blocks"})
    H5Ldelete(file, name, H5P_DEFAULT);
  H5Fclose(file);
  const std::vector<int> zeros(1 << 20, 0);
  replace(path, "/tokens/ids", H5T_STD_I32LE, {INT32_MAX}, {zeros.size()}, gzip,
          [&](hid_t id) { write_corner(id, H5T_NATIVE_INT, {zeros.size()}, zeros.data()); });
  EXPECT_LT(fs::file_size(path), 200'000U);
  EXPECT_THAT(message(path), HasSubstr("/tokens/ids has the shape [2147483647] but only"));
  check_with(kProgram.string());
  EXPECT_THAT(message(path), HasSubstr("/tokens/ids has the shape [2147483647] but only"));
}

}  // namespace
}  // namespace kvloupe
