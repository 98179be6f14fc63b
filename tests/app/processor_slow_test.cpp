#include "tests/support/test.h"

namespace {

/// What a command of the shell prints.
std::string printed(const std::string& command) {
  std::FILE* pipe = popen(command.c_str(), "r");
  std::string text;
  for (int c = std::fgetc(pipe); c != EOF; c = std::fgetc(pipe)) text += static_cast<char>(c);
  pclose(pipe);
  return text;
}

TEST(UnknownProcessor, EachProgramChoosesKernelsThatItCanRunUnlessTheUserHasChosen) {
#ifdef KVLOUPE_UNKNOWN_PROCESSOR
  if (!__builtin_cpu_supports("avx2")) GTEST_SKIP() << "no kernels to choose among";
  for (const std::string program : {"kvloupe", "kvloupe-capture"}) {
    const std::string command =
        "LD_PRELOAD=" KVLOUPE_UNKNOWN_PROCESSOR " " KVLOUPE_BIN_DIR "/" + program + " --version";
    const std::string chosen = printed("unset OPENBLAS_CORETYPE; " + command);
    if (chosen.find("not known") != std::string::npos) GTEST_SKIP() << "another BLAS";
    EXPECT_NE(chosen.find("(OpenBLAS took Prescott)"), std::string::npos) << chosen;
    const std::string given = printed("export OPENBLAS_CORETYPE=Nehalem; " + command);
    EXPECT_NE(given.find("matrix products: Prescott\n"), std::string::npos) << given;
  }
#else
  GTEST_SKIP() << "needs both programs, without sanitizers, on x86-64";
#endif
}

}  // namespace
