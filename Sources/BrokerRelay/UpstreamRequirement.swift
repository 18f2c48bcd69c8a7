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
/// `allow` reads the same text narrowly, for what it misses is refused. Here letters have no case, a byte that is percent-encoded
/// is the same as it is, one slash at the end is none, `/**` is for the path before it as well, and `GET` for `HEAD`.
private struct EntryPattern: Sendable, Equatable {
    /// The methods in capital letters; nil is any.
    private let methods: [String]?
    private let parts: [AllowEntry.Part]

    init(_ entry: AllowEntry) {
        methods = entry.methods
        var parts = entry.parts.map { part in
            if case .literal(let bytes) = part { AllowEntry.Part.literal(Self.plain(bytes)) } else { part }
        }
        if parts.last == .literal([]) { parts.removeLast() }
        self.parts = parts
    }

    private init(methods: [String]?, parts: [AllowEntry.Part]) {
        self.methods = methods
        self.parts = parts
    }

    /// Returns the pattern of whole paths at an upstream's origin.
    func below(_ base: UpstreamBase) -> EntryPattern {
        let segments = base.path.utf8.split(separator: 0x2F).map { AllowEntry.Part.literal(Self.plain($0)) }
        return EntryPattern(methods: methods, parts: segments + parts)
    }

    /// Whether a call is one that it is for.
    func covers(method: String, path: CanonicalPath) -> Bool {
        guard covers(method.uppercased()) else { return false }
        var segments = path.text.utf8.dropFirst().split(separator: 0x2F, omittingEmptySubsequences: false)
        if segments.last?.isEmpty == true { segments.removeLast() }
        var rest = segments[...]
        for part in parts {
            if part == .rest { return true }
            guard let segment = rest.popFirst() else { return false }
            if case .literal(let expected) = part, Self.plain(segment) != expected { return false }
        }
        return rest.isEmpty
    }

    /// Whether some call that `allowed` names is one that it is for.
    func overlaps(_ allowed: EntryPattern) -> Bool {
        if let others = allowed.methods, !others.contains(where: covers) { return false }
        var (left, right) = (parts[...], allowed.parts[...])
        while let one = left.first, let two = right.first {
            switch (one, two) {
            case (.rest, _), (_, .rest): return true
            case (.literal(let a), .literal(let b)): guard a == b else { return false }
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

    /// Returns a segment of a canonical path decoded, once, for that has no encodings of encodings; with no capital letters.
    private static func plain(_ segment: some Sequence<UInt8>) -> [UInt8] {
        var plain: [UInt8] = []
        var bytes = segment.makeIterator()
        while let byte = bytes.next() {
            if byte == 0x25, let high = bytes.next().flatMap(URIBytes.hex), let low = bytes.next().flatMap(URIBytes.hex)
            {
                plain.append(small(high << 4 | low))
            } else {
                plain.append(small(byte))
            }
        }
        return plain
    }

    private static func small(_ byte: UInt8) -> UInt8 { (0x41...0x5A).contains(byte) ? byte | 0x20 : byte }
}
