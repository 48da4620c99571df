#include "config/secrets.hpp"

#include <gtest/gtest.h>

#include "config/values_of.hpp"

namespace gearbox::config {
namespace {

TEST(Secrets, PasswordsAreNotShown) {
  const std::pair<const char*, const char*> cases[] = {
      {"host=db password=s3 user=a", "host=db password=*** user=a"},
      {"PassWord = 's 3' host=db", "PassWord = *** host=db"},
      {"password='it\\'s' x", "password=*** x"},
      {"password='open s3", "password=***"},
      {"sslpassword=s3", "sslpassword=***"},
      {"password=", "password=***"},
      {"postgresql://u:s3@db/x?password=s3&y=1", "postgresql://u:***@db/x?password=***&y=1"},
      {"http://u:s3@[::1]:80/ https://v:s@3@h", "http://u:***@[::1]:80/ https://v:***@h"},
      {"amqp://u:s/3@h/x", "amqp://u:***@h/x"},
      {"amqp://u:s#3?@h", "amqp://u:***@h"}};
  for (const auto& [text, shown] : cases) EXPECT_EQ(without_passwords(text), shown);
}

TEST(Secrets, OtherTextsStayAsTheyAre) {
  for (const char* text : {"", "http://host:8080/a:b@c", "the password is elsewhere", "user@host:22", "tcp://u@h:1",
                           "passfile=/etc/pass", "a=b"}) {
    EXPECT_EQ(without_passwords(text), text);
  }
}

TEST(Secrets, AnOptionThatIsNamedASecretIsOneAsAWhole) {
  for (const char* key : {"password", "db_password", "token", "API_KEY", "secret"})
    EXPECT_TRUE(names_a_secret(key)) << key;
  for (const char* key : {"token_file", "password_path", "connection", "timeout_ms"})
    EXPECT_FALSE(names_a_secret(key)) << key;
  Config config;
  config.plugins.options["other"].emplace("token", std::string("s3cret"));
  for (const Value& value : values_of(config)) EXPECT_EQ(value.value.find("s3cret"), std::string::npos) << value.key;
}

TEST(Secrets, OptionsOfSinksAndPluginsAreShownWithout) {
  Config config;
  SinkConfig sink;
  sink.name = "one";
  sink.options.emplace("connection", std::string("host=db password=s3cret"));
  config.node.sinks.push_back(sink);
  config.plugins.options["other"].emplace("url", std::string("amqp://u:s3cret@h"));
  int found = 0;
  for (const Value& value : values_of(config)) {
    EXPECT_EQ(value.value.find("s3cret"), std::string::npos) << value.key;
    if (value.value.find("***") != std::string::npos) ++found;
  }
  EXPECT_EQ(found, 2);
}

}  // namespace
}  // namespace gearbox::config
