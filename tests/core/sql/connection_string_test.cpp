#include "sql/connection_string.hpp"

#include <gtest/gtest.h>

namespace gearbox::sql {
namespace {

TEST(ConnectionString, TakesWhatLibpqUnderstands) {
  for (const char* text : {"host=db.example dbname=gearbox", "postgresql://db.example/gearbox",
                           "postgres://broker@db.example:5433/gearbox",
                           "host=/var/run/postgresql user=broker dbname=gearbox sslmode=verify-full", "service=gearbox",
                           "postgresql://a.example,b.example/gearbox?target_session_attrs=read-write",
                           "host=db.example passfile=/etc/gearbox/pgpass"}) {
    const auto good = check_connection_string(text);
    EXPECT_TRUE(good) << text << ": " << good.error().detail;
  }
}

TEST(ConnectionString, RefusesAPasswordAndDoesNotRepeatIt) {
  for (const char* text : {"host=db.example password=s3cret", "host=db.example password = 's3cret'",
                           "postgresql://broker:s3cret@db/gearbox", "postgresql://db.example/gearbox?password=s3cret",
                           "postgresql://db.example/gearbox?pass%77ord=s3cret", "host=db.example sslpassword=s3cret"}) {
    const auto refused = check_connection_string(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().code, Errc::bad_config);
    EXPECT_NE(refused.error().detail.find(".pgpass"), std::string::npos) << refused.error().detail;
    EXPECT_EQ(refused.error().detail.find("s3cret"), std::string::npos) << refused.error().detail;
  }
}

TEST(ConnectionString, AFaultBesideAPasswordDoesNotRepeatItEither) {
  for (const char* text : {"host=db password=s3cret and more", "postgresql://broker:s3cret@db:99999999999999/x?y",
                           "passwort=s3cret", "postgresql://broker:s3cret%zz@db/gearbox"}) {
    const auto refused = check_connection_string(text);
    ASSERT_FALSE(refused) << text;
    EXPECT_EQ(refused.error().detail.find("s3cret"), std::string::npos) << refused.error().detail;
  }
}

TEST(ConnectionString, SaysWhatIsWrong) {
  const auto unknown = check_connection_string("hosst=db.example");
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().detail.find("hosst"), std::string::npos) << unknown.error().detail;
  for (const char* text : {"", "sqlite3", "mysql://db.example/gearbox", "gearbox"}) {
    EXPECT_FALSE(check_connection_string(text)) << text;
  }
}

}  // namespace
}  // namespace gearbox::sql
