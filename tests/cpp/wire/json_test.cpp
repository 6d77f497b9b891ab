// SPDX-License-Identifier: MIT
// A JSON value: what it is made of, what it refuses, and that its text is read back as it was.
#include "wire/json.hpp"

#include <gtest/gtest.h>

namespace {

using lw::wire::Json;

std::string why_not(std::string_view text) {
    try {
        Json::parse(text);
    } catch (const Json::Wrong &error) {
        return error.what();
    }
    return "accepted";
}

TEST(Json, PairsOfAStringAndAValueAreAnObjectInTheirOrder) {
    const Json value{
        {"z", 1}, {"a", {1.5, "x", nullptr, true}}, {"numbers", std::vector<unsigned>{3, 4}}, {"none", Json::object()}};
    EXPECT_EQ(value.dump(), R"({"z":1,"a":[1.5,"x",null,true],"numbers":[3,4],"none":{}})");
    EXPECT_EQ(Json({{1, "a"}, {2, "b"}}).dump(), R"([[1,"a"],[2,"b"]])");
    EXPECT_EQ(Json(std::vector<std::pair<int, double>>{{1, 2.5}}).dump(), "[[1,2.5]]");
}

TEST(Json, ReadsBackWhatItWrote) {
    const std::string text =
        R"({"low":-9223372036854775808,"high":18446744073709551615,"real":0.1,"text":"\u00e9\n","list":[[],{}]})";
    const Json value = Json::parse(text);
    EXPECT_EQ(value.dump(-1, true), text);
    EXPECT_EQ(value.at("low").integer(), std::numeric_limits<std::int64_t>::min());
    EXPECT_EQ(value.at("high").number(), ~std::uint64_t{0});
    EXPECT_FALSE(value.at("low").is_unsigned());
    EXPECT_EQ(Json::parse(R"({"a":1,"b":2,"a":3})").dump(), R"({"a":3,"b":2})");
    EXPECT_EQ(Json("\xff").dump(), "\"\xef\xbf\xbd\"");
}

TEST(Json, ComparesNumbersByValue) {
    EXPECT_EQ(Json(2), Json::parse("2"));
    EXPECT_EQ(Json(2), Json(2.0));
    EXPECT_FALSE(Json(2) == Json("2"));
}

TEST(Json, RefusesWhatIsNoneAndWhatItIsNot) {
    EXPECT_EQ(why_not("{\"a\": }"), "not JSON at byte 7");
    EXPECT_EQ(why_not(""), "not JSON at byte 1");
    EXPECT_EQ(why_not("1e999"), "not JSON: a number is out of range");
    const auto nested = [](std::size_t deep) { return std::string(deep, '[') + std::string(deep, ']'); };
    EXPECT_EQ(why_not(nested(Json::deepest)), "accepted");
    EXPECT_EQ(why_not(nested(Json::deepest + 1)), "nested deeper than 64");
    EXPECT_EQ(why_not(std::string(10'000'000, '[')), "nested deeper than 64");
    EXPECT_THROW(Json(1).string(), Json::Wrong);
    EXPECT_THROW(Json(-1).number(), Json::Wrong);
    EXPECT_THROW(Json("1").real(), Json::Wrong);
    EXPECT_THROW(Json::object().at("absent"), Json::Wrong);
    EXPECT_THROW(Json::object().elements(), Json::Wrong);
}

TEST(Json, ANullBecomesWhatItIsUsedAs) {
    Json value;
    value["list"].push_back(1);
    value["list"].push_back("two");
    value["list"].erase(0);
    value["gone"] = 1;
    value.erase("gone");
    EXPECT_EQ(value, (Json{{"list", Json(std::vector<std::string>{"two"})}}));
    EXPECT_THROW(value["list"]["key"], Json::Wrong);
}

} // namespace
