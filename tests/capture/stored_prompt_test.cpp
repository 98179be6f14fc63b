// Prompts in results files.

#include "capture/eval/stored_prompt.h"
#include "tests/support/test.h"

namespace kvloupe::test {
namespace {

TEST(StoredPrompt, IsThePromptOrRefused) {
  TokenSequence tokens;
  tokens.add(1, "special");
  for (const int id : {5, 6, 5}) tokens.add(id, "context");
  tokens.add(9, "mine");
  const nlohmann::json json = stored_prompt(tokens);
  EXPECT_EQ(json.dump(),
            R"({"ids":"1 5 6 5 9","segments":[["special",1],["context",3],["mine",1]]})");
  const TokenSequence read = read_stored_prompt(json, "r.json");
  EXPECT_EQ(read.ids, tokens.ids);
  EXPECT_EQ(read.names[read.segment[4]], "mine");
  for (const char* wrong :
       {"7", "{}", R"({"ids":"","segments":[]})", R"({"ids":"1 x","segments":[["a",2]]})",
        R"({"ids":"1 -2","segments":[["a",2]]})", R"({"ids":"1  2","segments":[["a",2]]})",
        R"({"ids":"1 2","segments":[["a",1]]})", R"({"ids":"1 2","segments":[["a",3]]})",
        R"({"ids":"1 2","segments":[["a",-1],["b",3]]})", R"({"ids":"1 2","segments":7})",
        R"({"ids":"1 99999999999","segments":[["a",2]]})"}) {
    EXPECT_THROW(read_stored_prompt(nlohmann::json::parse(wrong), "r.json"), FileError) << wrong;
  }
}

}  // namespace
}  // namespace kvloupe::test
