#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::test {

/// The data that a page's script gets. Fails where they are no JSON.
nlohmann::json page_data(std::string_view page);

/// The read-outs of a figure of these data in one of its pictures, place by place: a second reader
/// of the stream beside the script's.
std::vector<std::string> page_texts(const nlohmann::json& figure, std::size_t picture = 0);

/// The content of the picture's <svg>, put together from the figure's pool.
std::string page_picture(const nlohmann::json& figure, std::size_t picture);

}  // namespace kvloupe::test
