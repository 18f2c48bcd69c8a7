/// The parameter names that the reader of a form knows.
///
/// Parameters with other names are read as browsers do (WHATWG URL section 5.1). A broken escape is kept as text, and invalid
/// UTF-8 is replaced. Decisions never depend on their values (decision 86).
package struct FormNames: Sendable, Equatable {
    /// The known names whose values must be well formed; each may occur once.
    package var exact: [String]
    /// The known names whose values may have any form; each may occur once.
    package var loose: [String] = []
    /// Whether a parameter with an unknown name may occur more than once.
    ///
    /// If so, such parameters are left out of the result.
    package var othersRepeat = true

    package init(exact: [String], loose: [String] = [], othersRepeat: Bool = true) {
        self.exact = exact
        self.loose = loose
        self.othersRepeat = othersRepeat
    }
}

/// A fault in one parameter of a form; its text contains only words of the broker.
///
/// A name is shown only if the reader knows it.
package struct FormFault: Error, Sendable, Equatable {
    package enum Flaw: String, Error, Sendable {
        case escape = "a broken percent-escape"
        case encoding = "invalid UTF-8"
        case control = "a control character"
        case character = "a character that has to be percent-encoded"
        case nameless = "no name"
    }

    /// The parameter's name; nil if the reader does not know it.
    package var name: String?
    /// The position of the parameter in the form, counted from 1.
    package let position: Int
    package let flaw: Flaw

    package var text: String { (name.map { "`\($0)`" } ?? "parameter \(position)") + " has " + flaw.rawValue }
}

extension FormPairs.Failure {
    /// The fault in words, for the caller and the log.
    ///
    /// A repeated name is shown only if the reader knows it.
    package func text(_ names: FormNames? = nil, maximumPairs: Int = 64) -> String {
        switch self {
        case .tooManyPairs: "there are more than \(maximumPairs) parameters"
        case .malformed(let fault): fault.text
        case .duplicate(let name):
            ((names?.exact ?? []) + (names?.loose ?? [])).first { $0.hasBytes(of: name) }.map { "`\($0)` is repeated" }
                ?? "a parameter is repeated"
        }
    }
}

extension FormPairs {
    /// Parses a form; `names` are the names that its reader knows.
    ///
    /// Empty parts between two `&` are skipped, but count towards the maximum (SEC-11). Control bytes are refused everywhere.
    /// `allows` checks the undecoded bytes of known parameters.
    package init(
        reading names: FormNames, of text: [UInt8], maximumPairs: Int = 64, where allows: ((UInt8) -> Bool)? = nil
    ) throws(Failure) {
        var pairs: [(name: String, value: String)] = []
        var seen: Set<[UInt8]> = []
        for (index, part) in Self.parts(of: text, maximumPairs).enumerated() {
            guard index < maximumPairs else { throw .tooManyPairs }
            guard !part.isEmpty else { continue }
            let (rawName, rawValue) = Self.halves(of: part)
            var known: String?
            let (name, value): (String, String)
            do throws(FormFault.Flaw) {
                name = try Self.tolerated(rawName)
                known = names.exact.first { $0.hasBytes(of: name) }
                if known != nil, let allows, !part.allSatisfy(allows) { throw .character }
                value = known == nil ? try Self.tolerated(rawValue) : try Self.decoded(rawValue)
            } catch { throw .malformed(FormFault(name: known, position: index + 1, flaw: error)) }
            let isLoose = known == nil && names.loose.contains { $0.hasBytes(of: name) }
            guard known != nil || isLoose || !names.othersRepeat else { continue }
            guard Self.isNew(name, among: pairs, &seen) else { throw .duplicate(name) }
            pairs.append((name, value))
        }
        self.init(unchecked: pairs)
    }

    /// Returns a text decoded as browsers do; throws only if it contains a control byte.
    private static func tolerated(_ text: ArraySlice<UInt8>) throws(FormFault.Flaw) -> String {
        String(decoding: try unescaped(text).bytes, as: UTF8.self)
    }
}
