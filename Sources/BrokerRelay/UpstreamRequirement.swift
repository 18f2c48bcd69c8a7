package import Broker

/// One line of an upstream's `require`: the sign-in that some of its calls need.
package struct UpstreamRequirement: Sendable, Equatable {
    private let pattern: EntryPattern
    package let demand: StepUpDemand

    /// Parses an entry's text, in the form of `allow`.
    package init(_ text: String, _ demand: StepUpDemand) throws(UpstreamFault) {
        do throws(UpstreamFault) { pattern = EntryPattern(try AllowEntry(text)) } catch {
            throw UpstreamFault("require", error.message)
        }
        self.demand = demand
    }

    /// Whether some call that a list allows is one that it is for.
    package func isReached(by list: AllowList) -> Bool { list.entries.contains { pattern.overlaps(EntryPattern($0)) } }

    /// Whether some call that another upstream allows is one that it is for; `base` is where its own upstream is.
    package func isReached(at base: UpstreamBase, through other: UpstreamSettings) -> Bool {
        guard base.origin == other.base.origin else { return false }
        let pattern = pattern.below(base)
        return other.allow.entries.contains { pattern.overlaps(EntryPattern($0).below(other.base)) }
    }

    /// Whether some call is one that both are for, each of an upstream at its base.
    package func overlaps(_ other: UpstreamRequirement, at base: UpstreamBase, and otherBase: UpstreamBase) -> Bool {
        pattern.below(base).overlaps(other.pattern.below(otherBase))
    }

    /// Whether a call is one that it is for.
    func covers(method: String, path: CanonicalPath) -> Bool { pattern.covers(method: method, path: path) }
}

extension [UpstreamRequirement] {
    /// Returns the demand of a call: all entries that name it hold; nil where none does.
    func demand(method: String, path: CanonicalPath) -> StepUpDemand? {
        var demand: StepUpDemand?
        for requirement in self where requirement.covers(method: method, path: path) {
            demand = demand.map { $0.joined(with: requirement.demand) } ?? requirement.demand
        }
        return demand
    }
}

/// An entry's text read as widely as an upstream might read a call: what it is for has to be held to more, not less.
///
/// `allow` reads the same text narrowly, for what it misses is refused. Here one slash at the end is none, `/**` is for the path
/// before it as well, `GET` for `HEAD`, a `?` that was encoded may end the path, a suffix (`.json`) may stand behind it, and
/// segments are compared as `ReadSegment` has them.
private struct EntryPattern: Sendable, Equatable {
    private enum Part: Sendable, Equatable {
        case literal(String)
        case segment
        case rest
    }

    /// The methods in capital letters; nil is any.
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

    /// Returns the pattern of whole paths at an upstream's origin.
    func below(_ base: UpstreamBase) -> EntryPattern {
        let segments = base.path.utf8.split(separator: 0x2F).map { Part.literal(ReadSegment.text(of: $0)) }
        return EntryPattern(methods: methods, parts: segments + parts)
    }

    /// Whether a call is one that it is for.
    func covers(method: String, path: CanonicalPath) -> Bool {
        guard covers(method.uppercased()) else { return false }
        let segments = path.text.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false)
            .map { ReadSegment.text(of: $0) }
        if covers(segments) { return true }
        // An upstream that decodes the path before it looks for the query sees it end there.
        guard let index = segments.firstIndex(where: { $0.utf8.contains(UInt8(ascii: "?")) }) else { return false }
        let last = ReadSegment.text(of: segments[index].utf8.prefix { $0 != UInt8(ascii: "?") })
        return covers(segments[..<index] + [last])
    }

    private func covers(_ segments: [String]) -> Bool {
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

    /// Whether some call that `allowed` names is one that it is for.
    func overlaps(_ allowed: EntryPattern) -> Bool {
        if let others = allowed.methods, !others.contains(where: covers) { return false }
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

    private func covers(_ method: String) -> Bool {
        guard let methods else { return true }
        return methods.contains(method) || method == "HEAD" && methods.contains("GET")
    }
}

/// A segment of a canonical path in the one form to which every reading of it that some server has comes.
///
/// It is decoded once, for it has no encodings of encodings. Letters have no case, in any alphabet; wide forms of ASCII are
/// ASCII; a `+` is a space; spaces round it, and dots behind it, are none (file systems drop them); characters that are not
/// seen are none. Two such texts are compared by canonical equivalence, as Swift compares.
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
        // The wide forms begin with that of `!`.
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
