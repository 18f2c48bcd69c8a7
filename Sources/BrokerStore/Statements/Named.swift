/// Elements with names: the types of a statement's parameters, or the values for them.
///
/// It is written as a dictionary literal, keeps the order of the literal, and several can be joined with `+`.
struct Named<Element: Sendable>: Sendable {
    /// The names and elements in their order.
    let pairs: [(String, Element)]

    var names: [String] { pairs.map { name, _ in name } }
    var elements: [Element] { pairs.map { _, element in element } }

    static func + (first: Self, second: Self) -> Self { Self(pairs: first.pairs + second.pairs) }

    /// Returns the elements in the order of `names`; throws unless each name has exactly one element.
    func ordered(by names: [String]) throws(StatementFault) -> Self {
        // The usual case is fast, because two literals with the same text are mostly the same string in memory.
        if isOrdered(by: names) { return self }
        var ordered: [(String, Element)] = []
        for name in names {
            guard let pair = pairs.first(where: { own, _ in own == name }) else { throw .missing(name) }
            ordered.append(pair)
        }
        for (own, _) in pairs where !names.contains(own) { throw .surplus(own) }
        if let repeated = repeatedName { throw .repeated(repeated) }
        return Self(pairs: ordered)
    }

    private func isOrdered(by names: [String]) -> Bool {
        guard names.count == pairs.count else { return false }
        for (name, (own, _)) in zip(names, pairs) where name != own { return false }
        return true
    }

    /// The first name that occurs twice, if there is one.
    var repeatedName: String? {
        var seen: Set<String> = []
        return names.first { !seen.insert($0).inserted }
    }
}

extension Named: ExpressibleByDictionaryLiteral {
    init(dictionaryLiteral pairs: (String, Element)...) { self.init(pairs: pairs) }
}
