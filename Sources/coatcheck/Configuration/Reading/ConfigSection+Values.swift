import Broker
import BrokerProviders

extension ConfigSection {
    /// Reads a printable text of 1 to `limit` bytes.
    func text(_ key: String, limit: Int = 512) -> String? {
        guard let scalar = scalar(key) else { return nil }
        return checked(scalar, key, limit: limit)
    }

    /// Reads a required text.
    func requiredText(_ key: String, limit: Int = 512) -> String? {
        if let value = text(key, limit: limit) { return value }
        require(key)
        return nil
    }

    /// Reports a required key that is missing.
    func require(_ key: String) {
        if !has(key) { report(nil, Self.need(key)) }
    }

    /// Reads a list of printable texts.
    func texts(_ key: String, limit: Int = 2048) -> [String] {
        scalars(key).compactMap { checked($0, key, limit: limit) }
    }

    /// Reads words from a list, or from one text with spaces (`openid email`).
    func words(_ key: String) -> [String]? {
        guard has(key) else {
            _ = node(key)
            return nil
        }
        return scalars(key).flatMap { scalar -> [String] in
            scalar.text.split(separator: " ").map(String.init).filter { word in
                let fits = (1...256).contains(word.utf8.count) && word.utf8.allSatisfy { (0x21...0x7E).contains($0) }
                if !fits { context.report("holds an entry that is not a word", path: child(key), line: scalar.line) }
                return fits
            }
        }
    }

    /// Reads `true` or `false`.
    func flag(_ key: String, default fallback: Bool) -> Bool {
        guard let scalar = scalar(key) else { return fallback }
        switch scalar.text {
        case "true": return true
        case "false": return false
        default:
            report(key, "has to be `true` or `false`")
            return fallback
        }
    }

    /// Reads a whole number within bounds.
    func integer(_ key: String, default fallback: Int, in range: ClosedRange<Int>) -> Int {
        guard let scalar = scalar(key) else { return fallback }
        guard let value = Int(scalar.text), range.contains(value) else {
            report(key, "has to be a whole number from \(range.lowerBound) to \(range.upperBound)")
            return fallback
        }
        return value
    }

    /// Reads one word of an enumeration.
    func choice<Value: RawRepresentable & CaseIterable>(_ key: String, as type: Value.Type = Value.self) -> Value?
    where Value.RawValue == String {
        guard let scalar = scalar(key) else { return nil }
        if let value = Value(rawValue: scalar.text) { return value }
        reportChoice(key, scalar, Value.allCases.map(\.rawValue))
        return nil
    }

    /// Reads one word, which must be the raw value of one of `values`.
    func choice<Value: RawRepresentable>(_ key: String, among values: [Value]) -> Value?
    where Value.RawValue == String {
        guard let scalar = scalar(key) else { return nil }
        if let value = values.first(where: { $0.rawValue == scalar.text }) { return value }
        reportChoice(key, scalar, values.map(\.rawValue))
        return nil
    }

    /// Reads a list of an enumeration's words without repetitions.
    ///
    /// `reading` converts a word of the file into a value, and may accept other names of the value.
    func choices<Value: RawRepresentable & CaseIterable & Hashable>(
        _ key: String, as type: Value.Type = Value.self,
        reading: (String) -> Value? = { Value(rawValue: $0) }
    ) -> Set<Value> where Value.RawValue == String {
        var found: Set<Value> = []
        var texts: Set<String> = []
        for scalar in scalars(key) {
            guard let value = reading(scalar.text) else {
                context.report(
                    "has to hold only \(Self.alternatives(Value.allCases.map(\.rawValue)))"
                        + Spelling.hint(for: scalar.text, among: Value.allCases.map(\.rawValue)), path: child(key),
                    line: scalar.line)
                continue
            }
            found.insert(value)
            if !texts.insert(scalar.text).inserted { report(key, "names something twice") }
        }
        return found
    }

    /// Reads a duration (`30d 12h 15m 60s 500ms`) within bounds.
    func duration(_ key: String, default fallback: Duration, in range: ClosedRange<Duration>) -> Duration {
        optionalDuration(key, in: range) ?? fallback
    }

    /// Reads a duration within bounds; nil if it is absent.
    func optionalDuration(_ key: String, in range: ClosedRange<Duration>) -> Duration? {
        guard let scalar = scalar(key) else { return nil }
        guard let value = DurationText.parse(scalar.text) else {
            report(key, "has to be a duration, such as `30d`, `12h`, `15m`, `60s` or `500ms`")
            return nil
        }
        guard range.contains(value) else {
            report(
                key,
                "has to lie between \(DurationText.write(range.lowerBound)) and \(DurationText.write(range.upperBound))"
            )
            return nil
        }
        return value
    }

    /// Reads a size (`64KiB`, `1MiB`) within bounds.
    func size(_ key: String, default fallback: Int, in range: ClosedRange<Int>) -> Int {
        guard let scalar = scalar(key) else { return fallback }
        guard let value = SizeText.parse(scalar.text) else {
            report(key, "has to be a size, such as `64KiB`, `1MiB` or `1GiB`")
            return fallback
        }
        guard range.contains(value) else {
            report(
                key, "has to lie between \(SizeText.write(range.lowerBound)) and \(SizeText.write(range.upperBound))")
            return fallback
        }
        return value
    }

    /// Reads the path of a readable file, and resolves it.
    func readableFile(_ key: String) -> (path: String, bytes: [UInt8])? {
        guard let text = text(key, limit: 4096) else { return nil }
        let path = context.sources.resolve(text)
        guard let bytes = context.sources.readFile(path, for: key, of: self) else { return nil }
        context.note(Secret(String(decoding: bytes, as: UTF8.self)), for: child(key))
        return (path, bytes)
    }

    /// Reads an https URL, or an http URL on loopback.
    ///
    /// A path is allowed. User information and fragments are faults, and a query is a fault unless `withQuery` is set.
    func endpoint(_ key: String, withQuery: Bool = false) -> EndpointURL? {
        guard let text = text(key, limit: 2048) else { return nil }
        let base = withQuery ? String(text.prefix { $0 != "?" }) : text
        let written = WebURL(base)
        guard written?.isSecure != false || written?.isLoopback != false else {
            report(key, "has to be https: plain http is for loopback addresses only")
            return nil
        }
        guard written != nil, let url = EndpointURL(text) else {
            report(key, "has to be an https URL without user name, query and fragment")
            return nil
        }
        return url
    }

    /// Reads a SHA-256 in 64 hexadecimal digits.
    func sha256(_ key: String) -> Digest? {
        guard let scalar = scalar(key) else { return nil }
        guard let bytes = Hexadecimal.decode(scalar.text), let digest = Digest(bytes) else {
            report(key, "has to be a SHA-256 in 64 hexadecimal digits, as `coatcheck hash-secret` prints it")
            return nil
        }
        if WeakSecret.isDigestOfWeak(scalar.text) {
            report(key, "is the SHA-256 of a word that everybody tries first")
            return nil
        }
        return digest
    }

    private func checked(_ scalar: ConfigScalar, _ key: String, limit: Int) -> String? {
        guard !scalar.text.isEmpty, scalar.text.utf8.count <= limit,
            scalar.text.unicodeScalars.allSatisfy({ $0.value >= 0x20 && $0.value != 0x7F })
        else {
            context.report(
                "has to be a text of 1 to \(limit) bytes without control characters", path: child(key),
                line: scalar.line)
            return nil
        }
        return scalar.text
    }

    /// Reports a word that is not among the allowed ones.
    func reportChoice(_ key: String, _ scalar: ConfigScalar, _ words: [String]) {
        report(key, "has to be \(Self.alternatives(words))" + Spelling.hint(for: scalar.text, among: words))
    }

    static func alternatives(_ words: [String]) -> String {
        let quoted = words.map { "`\($0)`" }
        guard let last = quoted.last, quoted.count > 1 else { return quoted.first ?? "" }
        return quoted.dropLast().joined(separator: ", ") + " or " + last
    }
}

extension ConfigSection {
    /// Reads a list of host names that are accepted in `Host`, in lower case.
    func hostNames(_ key: String) -> [String] {
        texts(key, limit: 255).compactMap { host in
            if let url = WebURL("https://\(host)"), url.path.isEmpty { return host.lowercased() }
            report(key, "has to hold host names, each with its port if it has one")
            return nil
        }
    }

    /// Reads a list of the 96-bit prefixes of IPv6 translators, whose addresses contain an IPv4 address (RFC 6052).
    ///
    /// With prefixes of other lengths, the IPv4 address would be in other bits.
    func translators(_ key: String) -> [IPNetwork] {
        scalars(key).compactMap { scalar in
            if let range = IPNetwork(scalar.text), range.isTranslators { return range }
            context.report(
                "has to hold IPv6 prefixes of 96 bits, such as `2001:db8:64::/96` (no bits set beyond the prefix)",
                path: child(key), line: scalar.line)
            return nil
        }
    }

    /// Reads a list of IP addresses and ranges.
    func networks(_ key: String) -> [IPNetwork] {
        scalars(key).compactMap { scalar in
            if let range = IPNetwork(scalar.text) { return range }
            context.report(
                "has to hold IP addresses or ranges, such as `10.0.0.0/8` (no bits set beyond the prefix)",
                path: child(key), line: scalar.line)
            return nil
        }
    }
}
