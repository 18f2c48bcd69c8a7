extension ConfigSection {
    /// Reads a list of IP addresses and ranges.
    func addressRanges(_ key: String) -> [AddressRange] {
        scalars(key).compactMap { scalar in
            if let range = AddressRange(scalar.text) { return range }
            context.report(
                "has to hold IP addresses or ranges, such as `10.0.0.0/8` (no bits set beyond the prefix)",
                path: child(key), line: scalar.line)
            return nil
        }
    }
}
