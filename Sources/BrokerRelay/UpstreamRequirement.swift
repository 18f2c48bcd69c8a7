package import Broker

/// One line of an upstream's `require`: the calls that it covers, and the sign-in that they need.
package struct UpstreamRequirement: Sendable, Equatable {
    private let pattern: EntryPattern
    package let demand: StepUpDemand

    /// Parses the text of an entry, which has the form of an entry of `allow`.
    package init(_ text: String, _ demand: StepUpDemand) throws(UpstreamFault) {
        do throws(UpstreamFault) { pattern = EntryPattern(try AllowEntry(text)) } catch {
            throw UpstreamFault("require", error.message)
        }
        self.demand = demand
    }

    /// Returns whether the allow-list permits any call that this entry covers.
    package func isReached(by list: AllowList) -> Bool { list.entries.contains { pattern.overlaps(EntryPattern($0)) } }

    /// Returns whether another upstream permits any call that this entry covers; `base` is the base URL of the entry's own
    /// upstream.
    package func isReached(at base: UpstreamBase, through other: UpstreamSettings) -> Bool {
        guard base.origin == other.base.origin else { return false }
        let pattern = pattern.below(base)
        return other.allow.entries.contains { pattern.overlaps(EntryPattern($0).below(other.base)) }
    }

    /// Returns whether some call is covered by this entry and by `other`.
    ///
    /// `base` and `otherBase` are the base URLs of their upstreams.
    package func overlaps(_ other: UpstreamRequirement, at base: UpstreamBase, and otherBase: UpstreamBase) -> Bool {
        pattern.below(base).overlaps(other.pattern.below(otherBase))
    }

    /// Returns whether the entry covers a call.
    func covers(method: String, path: CanonicalPath) -> Bool { pattern.covers(method: method, path: path) }
}

extension [UpstreamRequirement] {
    /// Returns the joined demand of all entries that cover a call; nil if no entry does.
    func demand(method: String, path: CanonicalPath) -> StepUpDemand? {
        var demand: StepUpDemand?
        for requirement in self where requirement.covers(method: method, path: path) {
            demand = demand.map { $0.joined(with: requirement.demand) } ?? requirement.demand
        }
        return demand
    }
}

/// An entry's pattern, read as broadly as an upstream might read a call, so that a doubtful call needs the sign-in too.
///
/// An entry of `allow` is read narrowly instead, because a call that no entry covers is refused. The broad reading has these
/// rules:
/// - A final slash is ignored, and `/**` also covers the path before it.
/// - `GET` covers `HEAD`.
/// - An encoded `?` may end the path, and the path may have a suffix (`.json`).
/// - Segments are compared in the form of `ReadSegment`.
private struct EntryPattern: Sendable, Equatable {
    private enum Part: Sendable, Equatable {
        case literal(String)
        case segment
        case rest
    }

    /// The methods in capital letters; nil matches any.
    private let methods: [String]?
    private let parts: [Part]

    init(_ entry: AllowEntry) {
        methods = entry.methods
        var parts = entry.parts.map { part -> Part in
            switch part {
            case .literal(let bytes): .literal(ReadSegment.text(of: bytes))
            case .segment: .segment
            case .rest: .rest
            }
        }
        if parts.last == .literal("") { parts.removeLast() }
        self.parts = parts
    }

    private init(methods: [String]?, parts: [Part]) {
        self.methods = methods
        self.parts = parts
    }

    /// Returns the pattern with the path of `base` in front, for comparing entries of different upstreams at one origin.
    func below(_ base: UpstreamBase) -> EntryPattern {
        let segments = base.path.utf8.split(separator: 0x2F).map { Part.literal(ReadSegment.text(of: $0)) }
        return EntryPattern(methods: methods, parts: segments + parts)
    }

    /// Returns whether the pattern covers a call.
    func covers(method: String, path: CanonicalPath) -> Bool {
        guard coversMethod(method.uppercased()) else { return false }
        let segments = path.text.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false)
            .map { ReadSegment.text(of: $0) }
        if coversPath(segments) { return true }
        // An upstream that decodes the path before it searches for the query ends the path at the decoded `?`.
        guard let index = segments.firstIndex(where: { $0.utf8.contains(UInt8(ascii: "?")) }) else { return false }
        let last = ReadSegment.text(of: segments[index].utf8.prefix { $0 != UInt8(ascii: "?") })
        return coversPath(segments[..<index] + [last])
    }

    private func coversPath(_ segments: [String]) -> Bool {
        var rest = segments[...]
        if rest.last?.isEmpty == true { rest.removeLast() }
        for part in parts {
            if part == .rest { return true }
            guard let segment = rest.popFirst() else { return false }
            if case .literal(let expected) = part, !Self.isRead(segment, as: expected, isLast: rest.isEmpty) {
                return false
            }
        }
        return rest.isEmpty
    }

    private static func isRead(_ segment: String, as expected: String, isLast: Bool) -> Bool {
        segment == expected || isLast && segment.hasPrefix(expected + ".")
    }

    /// Returns whether the pattern covers any call that `allowed` permits.
    func overlaps(_ allowed: EntryPattern) -> Bool {
        if let others = allowed.methods, !others.contains(where: coversMethod) { return false }
        var (left, right) = (parts[...], allowed.parts[...])
        while let one = left.first, let two = right.first {
            switch (one, two) {
            case (.rest, _), (_, .rest): return true
            case (.literal(let expected), .literal(let segment)):
                guard Self.isRead(segment, as: expected, isLast: right.count == 1) else { return false }
            case (.literal, .segment), (.segment, .literal), (.segment, .segment): break
            }
            left = left.dropFirst()
            right = right.dropFirst()
        }
        return (left.isEmpty || left.first == .rest) && (right.isEmpty || right.first == .rest)
    }

    private func coversMethod(_ method: String) -> Bool {
        guard let methods else { return true }
        return methods.contains(method) || method == "HEAD" && methods.contains("GET")
    }
}

/// A segment of a canonical path in a normal form.
///
/// Two segments that a server may treat as equal have the same normal form.
///
/// The segment is decoded once, because it contains no nested encodings. The other rules are:
/// - Upper and lower case are equal, in any alphabet, and wide forms of ASCII become ASCII.
/// - A `+` is a space.
/// - Surrounding spaces and trailing dots are removed, because some file systems remove them.
/// - Invisible characters are removed.
///
/// Swift compares two normal forms by Unicode's canonical equivalence.
private enum ReadSegment {
    static func text(of segment: some Sequence<UInt8>) -> String {
        let bytes = decoded(segment)
        let isPlain = bytes.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x2B }
        var text = ""
        if isPlain {
            text = String(decoding: bytes.map(small), as: UTF8.self)
        } else {
            for scalar in String(decoding: bytes, as: UTF8.self).unicodeScalars { append(scalar, to: &text) }
        }
        var rest = Substring(text)
        while rest.unicodeScalars.first == " " { rest = rest.dropFirst() }
        while let last = rest.unicodeScalars.last, last == " " || last == "." { rest = rest.dropLast() }
        return String(rest)
    }

    private static func append(_ scalar: Unicode.Scalar, to text: inout String) {
        switch scalar.value {
        case 0x2B: text += " "
        // The wide forms of ASCII are U+FF01 (`!`) to U+FF5E (`~`).
        case 0xFF01...0xFF5E: Unicode.Scalar(scalar.value - 0xFEE0).map { append($0, to: &text) }
        default:
            guard !scalar.properties.isDefaultIgnorableCodePoint else { return }
            text += scalar.properties.isWhitespace ? " " : scalar.properties.uppercaseMapping.lowercased()
        }
    }

    private static func decoded(_ segment: some Sequence<UInt8>) -> [UInt8] {
        var decoded: [UInt8] = []
        var bytes = segment.makeIterator()
        while let byte = bytes.next() {
            guard byte == 0x25 else {
                decoded.append(byte)
                continue
            }
            guard let high = bytes.next().flatMap(URIBytes.hex), let low = bytes.next().flatMap(URIBytes.hex) else {
                decoded.append(byte)
                continue
            }
            decoded.append(high << 4 | low)
        }
        return decoded
    }

    private static func small(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
