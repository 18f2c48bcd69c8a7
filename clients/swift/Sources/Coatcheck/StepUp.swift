/// A demand on how, and how lately, the user signed in (RFC 9470).
public struct StepUp: Codable, Sendable, Hashable {
    /// The classes of which the sign-in's `acr` has to be one; nil where any will do.
    public let acrValues: [String]?
    /// The most seconds since the user signed in; nil where any time will do.
    public let maxAge: Int?

    /// Creates a demand.
    public init(acrValues: [String]? = nil, maxAge: Int? = nil) {
        (self.acrValues, self.maxAge) = (acrValues, maxAge)
    }

    private enum CodingKeys: String, CodingKey { case acrValues = "acr_values", maxAge = "max_age" }

    /// Reads it in the form that it has on the wire, where the classes are one text.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        acrValues = try values.decodeIfPresent(String.self, forKey: .acrValues)?.split(separator: " ").map(String.init)
        maxAge = try values.decodeIfPresent(Int.self, forKey: .maxAge)
    }

    /// Writes it in the form that `POST /v1/logins` takes.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encodeIfPresent(acrValues?.joined(separator: " "), forKey: .acrValues)
        try values.encodeIfPresent(maxAge, forKey: .maxAge)
    }

    /// Whether a sign-in that meets this demand meets the other one, too.
    func covers(_ other: StepUp) -> Bool {
        let isStrong = other.acrValues.map { wanted in acrValues.map { Set($0).isSubset(of: wanted) } ?? false } ?? true
        let isRecent = other.maxAge.map { wanted in maxAge.map { $0 <= wanted } ?? false } ?? true
        return isStrong && isRecent
    }

    /// Returns the demand that meets both; nil where no class would.
    func joined(_ other: StepUp) -> StepUp? {
        var classes = acrValues ?? other.acrValues
        if let mine = acrValues, let others = other.acrValues { classes = mine.filter(others.contains) }
        guard classes?.isEmpty != true else { return nil }
        return StepUp(acrValues: classes, maxAge: [maxAge, other.maxAge].compactMap { $0 }.min())
    }
}

/// A call's refusal for want of a stronger or more recent sign-in, where no browser was opened for it: see
/// ``Coatcheck/stepUp(acrValues:maxAge:)``.
///
/// The session is as it was.
public struct StepUpRequired: Error, Sendable, Hashable {
    /// The demand, which a step-up has to meet.
    public let stepUp: StepUp
    /// Whether the session is a child's: its parent steps up, and makes a new one.
    public let isParents: Bool
    /// The broker's answer.
    public let problem: Problem

    init(_ problem: Problem) {
        stepUp = problem.stepUp ?? StepUp()
        isParents = problem.parent == true
        self.problem = problem
    }
}
