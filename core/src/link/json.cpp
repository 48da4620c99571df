// The one place where Boost.JSON's own code is compiled: whoever uses boost::json links gearbox_link, no shared
// library.
#include <boost/json/src.hpp>
