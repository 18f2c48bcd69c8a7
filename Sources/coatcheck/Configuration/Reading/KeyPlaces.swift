/// Finds the places in the file where a key is allowed.
enum KeyPlaces {
    /// The largest number of places that one error message names.
    private static let most = 3

    private static let all = Configuration.knownKeys()

    /// Returns the end of a sentence that names the places above or below `pattern` where a key is allowed; nil if there are
    /// none.
    static func hint(for key: String, in pattern: String) -> String? {
        let places = all.compactMap { known -> String? in
            if known == key { return "" }
            return known.hasSuffix("." + key) ? String(known.dropLast(key.count + 1)) : nil
        }
        let found =
            nearest(places.filter { lies(pattern, under: $0) }) { -segments($0) }
            + nearest(places.filter { lies($0, under: pattern) }) { segments($0) }
        guard !found.isEmpty else { return nil }
        return ": it belongs " + found.prefix(most).map(words).joined(separator: ", or ")
    }

    private static func nearest(_ places: [String], _ distance: (String) -> Int) -> [String] {
        let least = places.map(distance).min()
        return places.filter { distance($0) == least }.sorted()
    }

    private static func words(_ pattern: String) -> String {
        guard !pattern.isEmpty else { return "at the top of the file" }
        let name = pattern.replacing("*", with: "NAME")
        return name.hasSuffix("[]") ? "in an entry of `\(name.dropLast(2))`" : "in `\(name)`"
    }

    private static func lies(_ pattern: String, under other: String) -> Bool {
        pattern != other && (other.isEmpty || ConfigValues.lies(pattern, under: other))
    }

    private static func segments(_ pattern: String) -> Int {
        pattern.isEmpty ? 0 : 1 + pattern.count { $0 == "." || $0 == "[" }
    }
}
