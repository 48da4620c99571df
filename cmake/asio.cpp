// The one place where Asio's own code is compiled (BOOST_ASIO_SEPARATE_COMPILATION).
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wold-style-cast"
#include <boost/asio/impl/src.hpp>
