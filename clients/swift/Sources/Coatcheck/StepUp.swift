/// A demand on the strength and the age of the user's sign-in (RFC 9470).
public struct StepUp: Codable, Sendable, Hashable {
    /// The allowed values of the sign-in's `acr`.
    ///
    /// Nil allows all.
    public let acrValues: [String]?
    /// The largest age of the sign-in in seconds.
    ///
    /// Nil allows any age.
    public let maxAge: Int?

    /// Creates a demand.
    public init(acrValues: [String]? = nil, maxAge: Int? = nil) {
        (self.acrValues, self.maxAge) = (acrValues, maxAge)
    }

    private enum CodingKeys: String, CodingKey { case acrValues = "acr_values", maxAge = "max_age" }

    /// Reads the wire format, which writes the `acr` values as one text with spaces.
    public init(from decoder: any Decoder) throws {
        let values = try decoder.container(keyedBy: CodingKeys.self)
        acrValues = try values.decodeIfPresent(String.self, forKey: .acrValues)?.split(separator: " ").map(String.init)
        maxAge = try values.decodeIfPresent(Int.self, forKey: .maxAge)
    }

    /// Writes the format that `POST /v1/logins` accepts.
    public func encode(to encoder: any Encoder) throws {
        var values = encoder.container(keyedBy: CodingKeys.self)
        try values.encodeIfPresent(acrValues?.joined(separator: " "), forKey: .acrValues)
        try values.encodeIfPresent(maxAge, forKey: .maxAge)
    }

    /// Whether a sign-in that meets this demand also meets the demand `other`.
    func covers(_ other: StepUp) -> Bool {
        let isStrong = other.acrValues.map { wanted in acrValues.map { Set($0).isSubset(of: wanted) } ?? false } ?? true
        let isRecent = other.maxAge.map { wanted in maxAge.map { $0 <= wanted } ?? false } ?? true
        return isStrong && isRecent
    }

    /// Returns a demand that combines both demands, or nil if no `acr` value meets both.
    func joined(_ other: StepUp) -> StepUp? {
        var classes = acrValues ?? other.acrValues
        if let mine = acrValues, let others = other.acrValues { classes = mine.filter(others.contains) }
        guard classes?.isEmpty != true else { return nil }
        return StepUp(acrValues: classes, maxAge: [maxAge, other.maxAge].compactMap { $0 }.min())
    }
}

/// The error of a call that needs a stronger or more recent sign-in, if the library has opened no browser for it.
///
/// See ``Coatcheck/stepUp(acrValues:maxAge:)``. The session is unchanged.
public struct StepUpRequired: Error, Sendable, Hashable {
    /// The demand, which a step-up has to meet.
    public let stepUp: StepUp
    /// Whether the session is a child.
    ///
    /// In that case the parent steps up and makes a new child.
    public let isParents: Bool
    /// The broker's response.
    public let problem: Problem

    init(_ problem: Problem) {
        stepUp = problem.stepUp ?? StepUp()
        isParents = problem.parent == true
        self.problem = problem
    }
}
