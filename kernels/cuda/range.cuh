// Values in a smaller type.
#pragma once

// A diagonal of type `real`, NaN where it leaves that type's range: it is divided by, and the result must tell.
DEVICE real in_range(double value) {
    constexpr double LEAST = 1.1754943508222875e-38, MOST = 3.4028234663852886e38;   // of float
    const bool inside = sizeof(real) == sizeof(double) || (fabs(value) >= LEAST && fabs(value) <= MOST);
    return inside ? value : nan("");
}
