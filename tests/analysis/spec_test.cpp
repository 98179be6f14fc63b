#include <cctype>

#include "analysis/policy/kit/nearest_word.h"
#include "analysis/policy/policy_text.h"
#include "analysis/policy/presets.h"
#include "analysis/policy/published.h"
#include "tests/support/test.h"

namespace kvloupe {
namespace {

std::string refusal(const std::string& text) {
  return test::error_of<UsageError>([&] { parse_policy(text); }, "accepted");
}

TEST(Spec, FillsInDefaultsInCatalogueOrder) {
  const PolicySpec spec = parse_policy("snapkv(8, range=candidates)");
  ASSERT_EQ(spec.score().arguments.size(), 5U);
  EXPECT_EQ(spec.score().arguments[0].first, "window");
  EXPECT_EQ(spec.score().count("window"), 8);
  EXPECT_EQ(spec.score().word("pool"), "avg");
  EXPECT_EQ(spec.score().count("kernel"), 7);
  EXPECT_EQ(spec.score().word("range"), "candidates");
}

TEST(Spec, CanonicalTextLeavesOutDefaultsAndSortsModifiers) {
  EXPECT_EQ(parse_policy(" keydiff ( mean , metric = cosine ) ").text(), "keydiff");
  EXPECT_EQ(parse_policy("keydiff(anchor=median)").text(), "keydiff(median)");
  EXPECT_EQ(parse_policy("keydiff(metric=dot)").text(), "keydiff(metric=dot)");
  EXPECT_EQ(parse_policy("h2o+sinks(2)+recent(50%)").text(), "h2o+recent(50%)+sinks(2)");
  EXPECT_EQ(parse_policy("h2o+recent(10%)").text(), "h2o+recent");
  EXPECT_EQ(parse_policy("sink()").text(), "sink");
  EXPECT_EQ(parse_policy("snapkv(32,avg,5)").text(), "snapkv(kernel=5)");
  EXPECT_EQ(parse_policy("external(\"a \"\"b\"\".json\")").text(),
            "external(\"a \"\"b\"\".json\")");
  EXPECT_EQ(parse_policy("external(kept.json)").score().word("file"), "kept.json");
  EXPECT_EQ(parse_policy("random(9007199254740991)").score().number("seed"), 9007199254740991.0);
}

TEST(Spec, ErrorsNameTheWordItsColumnAndTheNearest) {
  EXPECT_THAT(refusal("keydif"),
              StartsWith("policy: 'keydif' at column 1: unknown score; the nearest is 'keydiff';"));
}

std::string spec_of_preset(const std::string& name) {
  for (const Preset& preset : presets()) {
    if (preset.name == name) return preset.spec;
  }
  return {};
}

TEST(Spec, NamesOfOtherLibrariesLeadToOurs) {
  const std::vector<std::pair<std::string, std::string>> names = {
      {"StreamingLLM", "sink(4)"},
      {"streaming_llm", "sink(4)"},
      {"StreamingLLMCache", "sink(4)"},
      {"SinkCache", "sink"},
      {"SnapKV", "snapkv"},
      {"H2O", "h2o"},
      {"H2OKVCluster", "h2o"},
      {"TOVA", "tova"},
      {"Knorm", "keynorm"},
      {"AdaKV", "snapkv+adakv"},
      {"KeyDiff", "keydiff"},
      {"DynamicCache", "full"},
      {"ExpectedAttention", "expected"},
      {"PyramidKV", spec_of_preset("PyramidKVPress")},
      {"ChunkKV", "snapkv+chunks(20)"},
      {"R-KV", "rkv"},
      {"Q-Filters", "qfilter"},
      {"slidingwindow", "sink(0)"}};
  for (const auto& [theirs, ours] : names) {
    EXPECT_THAT(refusal(theirs), HasSubstr("here this is '" + ours + "'")) << theirs;
    EXPECT_NO_THROW(parse_policy(ours));
  }
  EXPECT_THAT(refusal("h2o+PyramidKV"), HasSubstr("unknown modifier; here this is 'pyramid'"));
  EXPECT_THAT(refusal("nothing-like-it"), HasSubstr("the nearest is"));
}

TEST(Spec, EveryKindOfErrorSaysWhere) {
  const std::vector<std::tuple<std::string, std::string, std::string>> cases = {
      // text, word and column, what helps
      {"", "column 1", "a score"},
      {"keydiff+", "column 9", "a modifier"},
      {"+recent", "'+' at column 1", "a score"},
      {"recent(3)", "'recent' at column 1", "keydiff+recent"},
      {"keydiff+h2o", "'h2o' at column 9", "is a score"},
      {"keydiff+recnt", "'recnt' at column 9", "'recent'"},
      {"keydiff+recent+recent(3)", "'recent' at column 16", "twice"},
      {"snapkv(poll=max)", "'poll' at column 8", "'pool'"},
      {"snapkv(pool=mix)", "'mix' at column 13", "'max'"},
      {"snapkv(pool=3)", "'3' at column 13", "must be a word"},
      {"snapkv(window=x)", "'x' at column 15", "must be a number"},
      {"snapkv(window=10%)", "'10%' at column 15", "cannot be a share"},
      {"snapkv(window=0)", "'0' at column 15", "the nearest is 1"},
      {"snapkv(window=2.5)", "'2.5' at column 15", "whole"},
      {"snapkv(kernel=4)", "'4' at column 15", "the nearest is 5"},
      {"snapkv(8,8,8,8,8,8)", "'8' at column 10", "must be a word"},
      {"sink(4,5)", "'5' at column 8", "at most 1"},
      {"sink(4,n=5)", "'5' at column 8", "twice"},
      {"keynorm(1)", "'1' at column 9", "no parameters"},
      {"keynorm(x=1)", "'x' at column 9", "no parameters"},
      {"keydiff(metric=dot,mean)", "'mean' at column 20", "without a name"},
      {"keydiff+recent(120%)", "'120%' at column 16", "100%"},
      {"keydiff+recent(-3)", "'-3' at column 16", "out of range"},
      {"keydiff(mean", "column 13", "')'"},
      {"keydiff(mean;dot)", "';' at column 13", "')'"},
      {"keydiff recent", "'recent' at column 9", "'+'"},
      {"keydiff,h2o", "',' at column 8", "'+'"},
      {"external", "'external' at column 1", "needs file"},
      {"external(\"a", "'\"' at column 10", "is not closed"},
      {"external(\"\")", "column 10", "empty"},
      {"external(a/b)", "'/' at column 11", "')'"},
      {"full+recent", "'recent' at column 6", "remove the modifiers"},
      {"sink(1e999)", "'1e999' at column 6", "range"},
      {"sink(-inf)", "'-inf' at column 6", "range"},
      {"sink(-nan)", "'-nan' at column 6", "whole"},
      {"sink(3x)", "'3x' at column 6", "quotes"},
  };
  for (const auto& [text, where, help] : cases) {
    const std::string message = refusal(text);
    EXPECT_THAT(message, HasSubstr(where)) << text;
    EXPECT_THAT(message, HasSubstr(help)) << text;
    EXPECT_EQ(message.find('\n'), std::string::npos) << text;
  }
}

TEST(Spec, AListIsSplitAtCommasOutsideParenthesesAndQuotes) {
  const auto list = parse_policy_list("snapkv(8,pool=max), external(\"a,b+c(\") ,h2o+sinks(2)");
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].text(), "snapkv(8,pool=max)");
  EXPECT_EQ(list[1].score().word("file"), "a,b+c(");
  EXPECT_EQ(list[2].text(), "h2o+sinks(2)");
  EXPECT_THAT(test::error_of<UsageError>([&] { parse_policy_list("h2o,keydif"); }),
              HasSubstr("'keydif' at column 5"));
}

/// Any value the catalogue allows.
SpecValue any_value(const ParameterInfo& parameter, std::mt19937& random) {
  const auto pick = [&](std::size_t n) { return random() % n; };
  switch (parameter.type) {
    case ParameterType::word:
      return parameter.words[pick(parameter.words.size())];
    case ParameterType::text: {
      if (parameter.check) {
        std::vector<std::string> texts = {"-age",
                                          "rank( attn_sum )+1",
                                          "n>3 ? 1:2",
                                          "smooth(key_norm,5) * 1e-3",  // formulas
                                          "3-5; 7",
                                          "0",
                                          "12-",  // tokens
                                          "2.1;3",
                                          "0.0"};  // heads
        std::erase_if(texts,
                      [&](const std::string& text) { return parameter.check(text).has_value(); });
        return texts[pick(texts.size())];
      }
      std::string text;
      const std::string letters = "ab,+()\" =%/.\\";
      const std::size_t length = 1 + pick(12);
      for (std::size_t i = 0; i < length; ++i) text += letters[pick(letters.size())];
      return text;
    }
    case ParameterType::share:
      if (pick(2) == 0) return Percent{static_cast<double>(pick(1000001)) / 1e4};
      break;
    case ParameterType::number_or_word:
      if (pick(2) == 0) return parameter.words[pick(parameter.words.size())];
      [[fallthrough]];
    case ParameterType::number:
      return parameter.minimum +
             (parameter.maximum - parameter.minimum) * std::generate_canonical<double, 53>(random);
    case ParameterType::count:
    case ParameterType::flag:
      break;
  }
  const double width = parameter.maximum - parameter.minimum + 1.0;
  double count =
      parameter.minimum + std::floor(width * std::generate_canonical<double, 53>(random));
  if (parameter.odd && std::fmod(count, 2.0) == 0.0) count -= 1.0;
  return count;
}

TEST(Spec, TextOfAnySpecParsesBackToIt) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    PolicySpec spec;
    for (const PolicyEntry& entry : policy_catalog()) {
      const bool is_score = entry.kind() == PartKind::score;
      if (is_score && (!spec.parts.empty() || random() % 9 != 0)) continue;
      if (!is_score && (spec.parts.empty() || random() % 2 == 0)) continue;
      if (!is_score && find_policy(spec.score().name)->as<ScoreBuilder>() == nullptr) continue;
      SpecPart part;
      part.name = entry.name;
      for (const ParameterInfo& parameter : entry.parameters) {
        const bool plain = !parameter.required && random() % 2 == 0;
        part.arguments.emplace_back(parameter.name,
                                    plain ? parameter.default_value : any_value(parameter, random));
      }
      spec.parts.push_back(part);
    }
    if (spec.parts.empty()) continue;
    const auto refused = [&](const SpecPart& part) {
      const PolicyEntry& entry = *find_policy(part.name);
      return entry.refusal && !entry.refusal(part, spec).empty();
    };
    if (std::any_of(spec.parts.begin(), spec.parts.end(), refused)) continue;
    const std::string text = spec.text();
    ASSERT_EQ(parse_policy(text), spec) << text;
    ASSERT_EQ(parse_policy(text).text(), text);
  }
}

TEST(Spec, AnyTextIsParsedOrRefusedWithAColumn) {
  std::mt19937 random(2);
  const std::string seed = "snapkv(8,pool=max,kernel=5)+recent(10%)+sinks(4)";
  const std::string letters = "+,()=%\" .-e019azkeydiffmax\t\n\x01\xFF";
  int accepted = 0;
  for (int round = 0; round < 50000; ++round) {
    std::string text = seed;
    for (std::size_t change = 0; change < 1 + random() % 4; ++change) {
      const std::size_t at = random() % (text.size() + 1);
      const char letter = letters[random() % letters.size()];
      switch (random() % 3) {
        case 0:
          text.insert(at, 1, letter);
          break;
        case 1:
          if (at < text.size()) text.erase(at, 1 + random() % 5);
          break;
        default:
          if (at < text.size()) text[at] = letter;
      }
    }
    try {
      const PolicySpec spec = parse_policy(text);
      ASSERT_EQ(parse_policy(spec.text()), spec) << text;
      ++accepted;
    } catch (const UsageError& error) {
      ASSERT_THAT(error.what(), HasSubstr("column ")) << text;
    }
  }
  EXPECT_GT(accepted, 100);
}

TEST(Spec, TheNameOfAPressIsAPolicy) {
  std::string before;
  for (const Preset& preset : presets()) {
    SCOPED_TRACE(preset.name);
    const auto lower = [](std::string text) {
      for (char& letter : text) letter = static_cast<char>(std::tolower(letter));
      return text;
    };
    EXPECT_LT(lower(before), lower(preset.name)) << "in order, none twice";
    before = preset.name;
    EXPECT_EQ(parse_policy(preset.name), parse_policy(preset.spec));
    EXPECT_EQ(parse_policy_list(preset.name + ", keydiff," + preset.name).size(), 3U);
  }
  EXPECT_EQ(
      parse_policy(" SnapKVPress +sinks(4)"),
      parse_policy("snapkv(window=64,kernel=5,range=candidates,pool_before_group=1)+sinks(4)"));
  for (const std::string wrong :
       {"SnapKV", "SnapKVPressX", "SnapKVPress(8)", "AdaKVPress", "snapkvpress",
        "keydiff+SnapKVPress", "AdaKVPress(SnapKVPress)+adakv"}) {
    EXPECT_THROW(parse_policy(wrong), UsageError) << wrong;
  }
}

TEST(Spec, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(nearest_word("sinks", {"sink", "sinks"}), "sinks");
  EXPECT_EQ(nearest_word("x", {}), "");
}

TEST(Percent, SharesAreReadAsDecimals) {
  for (long whole = 1; whole <= 300; ++whole) {
    for (long hundredths = 1; hundredths <= 10000; hundredths += 7) {
      // hundredths of a percent, divided as integers
      const Percent share{static_cast<double>(hundredths) / 100.0};
      ASSERT_EQ(share.of(whole), hundredths * whole / 10000) << hundredths << " of " << whole;
    }
  }
  EXPECT_EQ(Percent{29}.of(100), 29);
  EXPECT_EQ(Percent{1e-300}.of(1000000), 0);
  EXPECT_EQ(Percent{33.333333333333336}.of(3), 1);
}

TEST(Budget, CountsAndShares) {
  EXPECT_EQ(parse_budget("256").resolve(10), 256);
  EXPECT_EQ(parse_budget("29%").resolve(100), 29);
  EXPECT_EQ(parse_budget("0.1%").resolve(100), 1);
  EXPECT_EQ(parse_budget(" 2.5% ").resolve(1000), 25);
  EXPECT_EQ(parse_budget("2.50%").text(), "2.5%");
  EXPECT_EQ(parse_budget("100%").resolve(7), 7);
  for (const char* wrong : {"", "0", "-1", "0%", "-5%", "1.5", "x", "10 %x", "%", "1e3", "nan%",
                            "inf%", "99999999999", "1e400%", "99999999999999999999999"}) {
    EXPECT_THROW(parse_budget(wrong), UsageError) << wrong;
  }
}

bool is_whole(const LayerBudgetBuilder& builder) { return static_cast<bool>(builder.budget); }
bool is_whole(const PagingBuilder& builder) { return builder.score && builder.selection; }
bool is_whole(const auto& builder) { return static_cast<bool>(builder.make); }

TEST(Catalogue, EveryEntryIsComplete) {
  for (const PolicyEntry& entry : policy_catalog()) {
    SCOPED_TRACE(entry.name);
    EXPECT_EQ(find_policy(entry.name), &entry);
    EXPECT_FALSE(entry.summary.empty() || entry.formula.empty() || entry.source.empty());
    EXPECT_FALSE(entry.needs.empty() || entry.work.empty());
    EXPECT_EQ(entry.summary.find('\n') + entry.formula.find('\n'), 2 * std::string::npos);
    EXPECT_TRUE(std::visit([](const auto& builder) { return is_whole(builder); }, entry.builder));
    for (const PartVariant& variant : entry.variants) {
      EXPECT_FALSE(variant.where.empty());
      const bool is_score = entry.kind() == PartKind::score;
      const std::string score = entry.traits.reads_probe ? "kvzip+" : "h2o+";
      EXPECT_NO_THROW(parse_policy(is_score ? variant.spec : score + variant.spec)) << variant.spec;
    }
    for (const ParameterInfo& parameter : entry.parameters) {
      EXPECT_FALSE(parameter.meaning.empty()) << parameter.name;
    }
  }
}

TEST(PublishedPolicies, AreCanonicalAndDifferFromWhatIsCalledPlain) {
  std::set<std::string> methods;
  for (const PublishedPolicy& policy : published_policies()) {
    ASSERT_NE(find_policy(policy.part), nullptr) << policy.part;
    EXPECT_TRUE(methods.insert(policy.method).second) << policy.method;
    EXPECT_EQ(parse_policy(policy.spec).text(), policy.spec);
    EXPECT_TRUE(parse_policy(policy.spec).find(policy.part) != nullptr ||
                parse_policy(policy.spec).score().name == policy.part)
        << policy.spec;
    EXPECT_FALSE(policy.why.empty());
    if (!policy.plain.empty()) {
      EXPECT_NE(parse_policy(policy.plain), parse_policy(policy.spec)) << policy.method;
    }
  }
  EXPECT_EQ(published_spec("h2o"), "h2o+recent(50%)");
  EXPECT_EQ(published_spec("random"), "random") << "stands for itself";
  EXPECT_EQ(published_list({"A", "h2o+caote", "keydiff(anchor=pairwise)"}),
            "A,h2o+recent(50%)+caote,keydiff(anchor=pairwise)");
}

TEST(PolicyText, TheDocumentIsWhatTheCatalogueSays) {
  const std::string text = test::file_text(KVLOUPE_SOURCE_DIR "/docs/policies.md");
  EXPECT_EQ(text, policies_markdown())
      << "stale; write it anew: kvloupe policies --markdown > docs/policies.md";
}

/// Other code asks for what an entry says. The runs with the full cache are called "full" in files
/// of results, and a figure's choice has words of its own.
TEST(PolicyNames, AreComparedInThePoliciesOwnFilesAlone) {
  namespace fs = std::filesystem;
  const std::regex asks(R"re((==|!=|find\(|find_policy\(|contains\() ?"([a-z0-9_]+)")re");
  const fs::path root = KVLOUPE_SOURCE_DIR;
  int files = 0;
  for (const char* folder : {"analysis", "capture", "app"}) {
    for (const auto& file : fs::recursive_directory_iterator(root / folder)) {
      const fs::path path = file.path().lexically_relative(root);
      const std::string parent = path.parent_path().string();
      if (path.extension() != ".cpp" && path.extension() != ".h") continue;
      if (parent == "analysis/policy/scores" || parent == "analysis/policy/modifiers") continue;
      ++files;
      std::istringstream lines(test::file_text(file.path().string()));
      for (std::string line; std::getline(lines, line);) {
        std::smatch found;
        if (!std::regex_search(line, found, asks)) continue;
        if (found[2] == "full" || line.find("choice(") != std::string::npos) continue;
        EXPECT_EQ(find_policy(found.str(2)), nullptr) << path << ": " << line;
      }
    }
  }
  EXPECT_GT(files, 500);
}

TEST(PolicyText, NamesEveryPartAndParameter) {
  const std::string text = policies_markdown();
  for (const PolicyEntry& entry : policy_catalog()) {
    EXPECT_THAT(text, HasSubstr("### " + entry.name + "\n"));
    for (const ParameterInfo& parameter : entry.parameters) {
      EXPECT_THAT(text, testing::AnyOf(HasSubstr("\n- `" + parameter.name + "="),
                                       HasSubstr("\n- `" + parameter.name + "`")));
    }
    // Examples are specs.
    if (!entry.example.empty()) {
      EXPECT_EQ(parse_policy(entry.example).text(), entry.example);
    }
  }
}

}  // namespace
}  // namespace kvloupe
