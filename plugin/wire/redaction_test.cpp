// SPDX-License-Identifier: Apache-2.0
#include "plugin/wire/redaction.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>

namespace stalltrace::redaction {
namespace {

std::string redacted(std::string line) {
  line.resize(redact_command_line(line.data(), line.size()));
  return line;
}

/// Uses '|' between the arguments, where /proc/PID/cmdline has '\0'.
std::string of_arguments(std::string line) {
  std::ranges::replace(line, '|', '\0');
  line = redacted(line);
  std::ranges::replace(line, '\0', '|');
  return line;
}

TEST(Redaction, HidesTheValuesOfSecretNames) {
  for (const auto& [line, wanted] : {
           std::pair{"train|--password|hunter2|--lr|1", "train|--password|***|--lr|1"},
           {"train|--token=abcdef|-v", "train|--token=***|-v"},
           {"train|--hf-token|abcdef", "train|--hf-token|***"},
           {"train|--api_key|two words|x", "train|--api_key|***|x"},
           {"env|WANDB_API_KEY=0123456789|python", "env|WANDB_API_KEY=***|python"},
           {"env|AWS_SECRET_ACCESS_KEY=a b|python", "env|AWS_SECRET_ACCESS_KEY=***|python"},
           {"train|+logger.api_key=abcdef", "train|+logger.api_key=***"},
           {"train|--dbPassword=abcdef", "train|--dbPassword=***"},
           {"train|--userpasswd|abcdef", "train|--userpasswd|***"},
           {"train|--config|{\"token\": \"abcdef\", \"lr\": 1}", "train|--config|{\"token\": \"***\", \"lr\": 1}"},
           {"curl|-H|Authorization: Bearer abcdef|url", "curl|-H|Authorization: ***|url"},
           {"curl|-H|X-Auth-Token: abcdef", "curl|-H|X-Auth-Token: ***"},
           {"curl|-u|me:hunter2|url", "curl|-u|me:***|url"},
           {"curl|--user=me:hunter2", "curl|--user=me:***"},
           {"sh|-c|train --password hunter2 --lr 1", "sh|-c|train --password *** --lr 1"},
           {"sh|-c|K=1 HF_TOKEN=hunter2 train", "sh|-c|K=1 HF_TOKEN=*** train"},
           {"train|--password|x", "train|--password|*"},
       }) {
    EXPECT_EQ(of_arguments(line), wanted);
  }
}

TEST(Redaction, HidesWhatStandsInUrls) {
  for (const auto& [line, wanted] : {
           std::pair{"x|postgres://me:hunter2@db:5432/runs", "x|postgres://me:***@db:5432/runs"},
           {"x|--url=redis://:hunter2@cache", "x|--url=redis://:***@cache"},
           {"x|postgres://me:hun/ter2@db/runs", "x|postgres://me:***@db/runs"},
           {"x|https://abcdef@host/repo.git", "x|https://***@host/repo.git"},
           {"x|https://host/a?sig=abcdef&x=1", "x|https://host/a?sig=***&x=1"},
           {"x|https://host/a?x=1&token=abcdef|y", "x|https://host/a?x=1&token=***|y"},
       }) {
    EXPECT_EQ(of_arguments(line), wanted);
  }
}

TEST(Redaction, KnowsTokensByTheirBeginning) {
  EXPECT_EQ(of_arguments("login|hf_abcdefghijklmnop0123456789"), "login|***");
  EXPECT_EQ(of_arguments("login|ghp_abcdefghijklmnop0123456789|x"), "login|***|x");
  EXPECT_EQ(of_arguments("train|hf_model|sk-learn"), "train|hf_model|sk-learn");
}

TEST(Redaction, LeavesWhatIsNoSecret) {
  for (const char* line :
       {"python|-u|train.py|--lr|1e-4", "torchrun|--rdzv-endpoint|node0:29500|--rdzv-id=7", "x|--tokenizer|llama",
        "x|--max-tokens=512", "x|--eos-token-id|2", "x|--num-key-value-heads|8", "x|tcp://node0:29500/a@b",
        "x|ssh://git@host/repo", "x|http://host:80/a@b", "x|--keyboard=us", "x|--passes|3", "x|a=b:c=d"}) {
    EXPECT_EQ(of_arguments(line), line);
  }
}

TEST(Redaction, WorksOnArgumentsThatAreJoinedWithBlanks) {
  EXPECT_EQ(redacted("train --password hunter2 --lr 1"), "train --password *** --lr 1");
  EXPECT_EQ(redacted("train --token=hunter2 --lr 1"), "train --token=*** --lr 1");
  EXPECT_EQ(redacted("curl -H Authorization: Bearer hunter2 url"), "curl -H Authorization: *** url");
}

TEST(Redaction, IsTheSameTwiceAndNeverLonger) {
  const std::string line = "a --password x --token=yy K_KEY=zzz postgres://u:p@h hf_abcdefghijklmnop0123456789";
  const std::string once = redacted(line);
  EXPECT_LE(once.size(), line.size());
  EXPECT_EQ(redacted(once), once);
  EXPECT_EQ(redacted(""), "");
  EXPECT_EQ(redacted("--password"), "--password");
  EXPECT_EQ(redacted("--password="), "--password=");
}

}  // namespace
}  // namespace stalltrace::redaction
