#include "sink/postgres_words.hpp"

#include <gtest/gtest.h>

namespace gearbox::sink {
namespace {

TEST(PostgresWords, APasswordInTheConnectionIsRefusedAndNotRepeated) {
  for (const char* bad : {"host=db password=s3cret", "password='s3cret' host=db", "host=db password = s3cret",
                          "postgresql://u:s3cret@db/x", "postgres://u:s3cret@db", "postgresql://db/x?password=s3cret",
                          "host=db sslpassword=s3cret", "password=''"}) {
    const auto checked = check_connection(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().code, Errc::bad_config);
    EXPECT_EQ(checked.error().detail.find("s3cret"), std::string::npos) << checked.error().detail;
    EXPECT_NE(checked.error().detail.find("pgpass"), std::string::npos) << checked.error().detail;
  }
  for (const char* good : {"", "host=/run/pg user=gearbox dbname=x", "postgresql://u@db:5433/x?connect_timeout=3",
                           "host=db passfile=/etc/gearbox/pgpass", "service=farm", "host=db user=password"}) {
    EXPECT_TRUE(check_connection(good)) << good;
  }
}

TEST(PostgresWords, WhatLibpqDoesNotUnderstandIsRefusedAndNotRepeated) {
  for (const char* bad : {"host=db s3cret", "s3cret", "host=db passwd=s3cret", "postgresql://u@db/x?passwd=s3cret"}) {
    const auto checked = check_connection(bad);
    ASSERT_FALSE(checked) << bad;
    EXPECT_EQ(checked.error().detail.find("s3cret"), std::string::npos) << checked.error().detail;
  }
}

TEST(PostgresWords, ErrorsShowNoRows) {
  EXPECT_EQ(error_words("23505",
                        "ERROR:  duplicate key value violates unique constraint \"results_pkey\"\nDETAIL:  Key "
                        "(user)=(anna) already exists.\n"),
            "SQLSTATE 23505: duplicate key value violates unique constraint \"results_pkey\"");
  EXPECT_EQ(error_words("22P02", "ERROR:  invalid input syntax for type bigint: \"an\"na\"\nCONTEXT:  x\n"),
            "SQLSTATE 22P02: invalid input syntax for type bigint: \"...\"");
  EXPECT_EQ(error_words("22003", "FEHLER:  value \"4000000000\" is out of range for type integer"),
            "SQLSTATE 22003: value \"...\" is out of range for type integer");
  EXPECT_EQ(error_words("22001", "ERROR:  value too long: \"anna"), "SQLSTATE 22001: value too long: \"...\"");
  EXPECT_EQ(error_words("42501", "ERROR:  permission denied for table results"),
            "SQLSTATE 42501: permission denied for table results");
}

}  // namespace
}  // namespace gearbox::sink
