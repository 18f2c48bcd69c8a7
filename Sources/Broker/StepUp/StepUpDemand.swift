/// A demand on how, and how lately, the user signed in (RFC 9470).
package struct StepUpDemand: Sendable, Equatable {
    /// One of these has to be the `acr`; empty where any will do.
    package var contextClasses: [String]
    /// The most seconds that may have passed since the user signed in; nil where any will do.
    package var maximumAge: Int64?
    /// Whether the call has to show its user's presence as well, which no sign-in does.
    package var presence = false
    /// Whether some sign-in may meet it: not where two demands that both hold name no class in common.
    package private(set) var isPossible = true

    /// The most values that may be named, and the most characters of one.
    package static let mostClasses = 8
    package static let longestClass = 200
    /// The longest age that may be named.
    package static let longestAge: Int64 = 1 << 31

    package init(contextClasses: [String] = [], maximumAge: Int64? = nil) {
        self.contextClasses = contextClasses
        self.maximumAge = maximumAge
    }

    /// Whether these may be demanded: as many as there may be, none too long, and none that a challenge could not hold.
    package static func areClasses(_ classes: [String]) -> Bool {
        (1...mostClasses).contains(classes.count)
            && classes.allSatisfy { text in
                (1...longestClass).contains(text.utf8.count)
                    && text.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != 0x22 && $0 != 0x5C }
            }
    }

    /// Returns the demand that holds where this and another one do.
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

    /// The demand of presence alone.
    static let presence = StepUpDemand().withPresence

    /// The part that a sign-in can meet; nil where there is none.
    package var ofSignIn: StepUpDemand? {
        guard presence else { return self }
        guard !isPossible || !contextClasses.isEmpty || maximumAge != nil else { return nil }
        var rest = self
        rest.presence = false
        return rest
    }

    /// The same with presence.
    package var withPresence: StepUpDemand {
        var more = self
        more.presence = true
        return more
    }

    /// The parameters of the authorization request.
    var parameters: [(name: String, value: String)] {
        var pairs: [(name: String, value: String)] = []
        // Providers that honour an age take 0 for none, or for a mistake, and 1 asks the user as well.
        if let maximumAge { pairs.append(("max_age", String(max(maximumAge, 1)))) }
        if !contextClasses.isEmpty { pairs.append(("acr_values", contextClasses.joined(separator: " "))) }
        return pairs
    }

    /// Returns whether a sign-in meets it at a time.
    ///
    /// A time that is not known meets no age, and neither does one that has not come.
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

/// The manner and time of a sign-in, as its id_token says: `acr`, `amr` and `auth_time`.
package struct SignInFacts: Sendable, Equatable {
    package var contextClass: String?
    package var methods: [String]
    /// Seconds since 1970; nil where the provider does not say, and then it is never the time of the sign-in here.
    package private(set) var authenticatedAt: Int64?

    package init(contextClass: String? = nil, methods: [String] = [], authenticatedAt: Int64? = nil) {
        self.contextClass = contextClass
        self.methods = methods
        // A time beyond every calendar is none, and neither is 0, which a provider says that does not know it.
        self.authenticatedAt = authenticatedAt.flatMap { (1..<253_402_300_800).contains($0) ? $0 : nil }
    }
}

/// The reason for which a step-up failed: what was required, and what came; nil where nobody knows any more, or the provider
/// said so by itself.
package struct StepUpShortfall: Sendable, Equatable {
    package let required: StepUpDemand
    package let got: SignInFacts?
    /// Whether an upstream asks for what the session has.
    package var isUpstreams = false

    package init(required: StepUpDemand, got: SignInFacts?, isUpstreams: Bool = false) {
        self.isUpstreams = isUpstreams
        self.required = required
        self.got = got
    }
}

/// A provider's ability to step up (`providers.NAME.step_up`).
package struct StepUpCapability: Sendable, Equatable {
    /// Whether it honours `acr_values` and says `acr`.
    package var contextClass: Bool
    /// Whether it honours `max_age` and says `auth_time`.
    package var maximumAge: Bool

    package init(contextClass: Bool, maximumAge: Bool) {
        self.contextClass = contextClass
        self.maximumAge = maximumAge
    }

    package static let nothing = StepUpCapability(contextClass: false, maximumAge: false)
    package static let everything = StepUpCapability(contextClass: true, maximumAge: true)

    /// Returns whether it can fulfil a demand.
    package func canFulfil(_ demand: StepUpDemand) -> Bool {
        (demand.contextClasses.isEmpty || contextClass) && (demand.maximumAge == nil || maximumAge)
    }
}

/// A session that has been stepped up: the same session, and the same token.
package struct SteppedUp: Sendable {
    package let session: SessionView
    /// The token that the request presented, for the cookie's `Max-Age`.
    package let token: Secret
    package let transport: ClientProfile.Transport
    /// The session's end however often it is refreshed.
    package let endsAtLatest: WallTime

    init(_ live: LiveSession, token: Secret, transport: ClientProfile.Transport, view: SessionView) {
        session = view
        self.token = token
        self.transport = transport
        endsAtLatest =
            live.row.refreshable
            ? live.row.createdAt.advanced(by: live.facts.lifetimes.absolute) : live.row.expiresAt
    }
}
