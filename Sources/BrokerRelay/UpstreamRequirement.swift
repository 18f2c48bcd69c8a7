package import Broker

/// One line of an upstream's `require`: the sign-in that some of its calls need.
package struct UpstreamRequirement: Sendable, Equatable {
    let entry: AllowEntry
    package let demand: StepUpDemand

    /// Parses an entry's text, in the form of `allow`.
    package init(_ text: String, _ demand: StepUpDemand) throws(UpstreamFault) {
        do throws(UpstreamFault) { entry = try AllowEntry(text) } catch {
            throw UpstreamFault("require", error.message)
        }
        self.demand = demand
    }

    /// Whether some call that a list allows is one that it is for.
    package func isReached(by list: AllowList) -> Bool { list.entries.contains { $0.overlaps(entry) } }
}

extension [UpstreamRequirement] {
    /// Returns the demand of a call: all entries that name it hold; nil where none does.
    func demand(method: String, path: CanonicalPath) -> StepUpDemand? {
        var demand: StepUpDemand?
        for requirement in self where requirement.entry.allows(method: method) && requirement.entry.allows(path: path) {
            demand = demand.map { $0.joined(with: requirement.demand) } ?? requirement.demand
        }
        return demand
    }
}

extension AllowEntry {
    /// Whether some call is both entries'.
    func overlaps(_ other: AllowEntry) -> Bool {
        if let own = methods, let others = other.methods, Set(own).isDisjoint(with: others) { return false }
        var (left, right) = (parts[...], other.parts[...])
        while let one = left.popFirst() {
            guard let two = right.popFirst() else { return false }
            switch (one, two) {
            case (.rest, _), (_, .rest): return true
            case (.literal(let a), .literal(let b)): guard a == b else { return false }
            // A segment is not empty.
            case (.literal(let text), .segment), (.segment, .literal(let text)):
                guard !text.isEmpty else { return false }
            case (.segment, .segment): break
            }
        }
        return right.isEmpty
    }
}
