/// A demand on the strength and the age of a sign-in (RFC 9470).
package struct StepUpDemand: Sendable, Equatable {
    /// The accepted values of `acr`; empty to accept any value.
    package var contextClasses: [String]
    /// The longest time since the user's sign-in, in seconds; nil to accept any age.
    package var maximumAge: Int64?
    /// Whether the call also has to show the user's presence, which a sign-in cannot show.
    package var presence = false
    /// Whether any sign-in can meet the demand; false if two joined demands have no `acr` value in common.
    package private(set) var isPossible = true

    /// The largest number of `acr` values that a demand may name, and the largest number of characters of one value.
    package static let mostClasses = 8
    package static let longestClass = 200
    /// The longest age that a demand may name, in seconds.
    package static let longestAge: Int64 = 1 << 31

    package init(contextClasses: [String] = [], maximumAge: Int64? = nil) {
        self.contextClasses = contextClasses
        self.maximumAge = maximumAge
    }

    /// Returns whether the `acr` values may be demanded.
    ///
    /// Their number and length are limited, and each one has to fit into a challenge.
    package static func areClasses(_ classes: [String]) -> Bool {
        (1...mostClasses).contains(classes.count)
            && classes.allSatisfy { text in
                (1...longestClass).contains(text.utf8.count)
                    && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
            }
    }

    /// Returns the demand that requires both this demand and `other`.
    package func joined(with other: StepUpDemand) -> StepUpDemand {
        var both = self
        if let age = other.maximumAge { both.maximumAge = min(maximumAge ?? age, age) }
        if contextClasses.isEmpty {
            both.contextClasses = other.contextClasses
        } else if !other.contextClasses.isEmpty {
            both.contextClasses = contextClasses.filter { own in other.contextClasses.contains { $0.hasBytes(of: own) }
            }
            if both.contextClasses.isEmpty { both.isPossible = false }
        }
        if !other.isPossible { both.isPossible = false }
        both.presence = presence || other.presence
        return both
    }

    /// The demand for presence alone.
    static let presence = StepUpDemand().withPresence

    /// The part of the demand that a sign-in can meet; nil if there is none.
    package var ofSignIn: StepUpDemand? {
        guard presence else { return self }
        guard !isPossible || !contextClasses.isEmpty || maximumAge != nil else { return nil }
        var rest = self
        rest.presence = false
        return rest
    }

    /// Returns this demand with presence added.
    package var withPresence: StepUpDemand {
        var more = self
        more.presence = true
        return more
    }

    /// The parameters of the authorization request that express the demand.
    var parameters: [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = []
        // Some providers treat 0 as no limit or as an error. The value 1 also makes them ask the user to sign in.
        if let maximumAge { pairs.append(("max_age", String(max(maximumAge, 1)))) }
        if !contextClasses.isEmpty { pairs.append(("acr_values", contextClasses.joined(separator: " "))) }
        return pairs
    }

    /// Returns whether a sign-in meets the demand at `now`.
    ///
    /// If an age is demanded, a sign-in with an unknown or future time does not meet it.
    package func isMet(by signIn: SignInFacts, at now: WallTime, leeway: Duration) -> Bool {
        guard isPossible else { return false }
        if !contextClasses.isEmpty {
            guard let reached = signIn.contextClass, contextClasses.contains(where: { $0.hasBytes(of: reached) }) else {
                return false
            }
        }
        guard let maximumAge else { return true }
        guard let at = signIn.authenticatedAt else { return false }
        let age = now.since(WallTime(seconds: at))
        return age <= .seconds(maximumAge) + leeway && age >= .zero - leeway
    }
}
