/// The result of one test of a provider, for `coatcheck check --online`.
package struct ProbeResult: Sendable, Equatable {
    /// The subject of the test, for example `discovery`, `keys`, `clock` or `reach`.
    package let subject: String
    package let isGood: Bool
    /// The finding, and the change to make if something is wrong.
    ///
    /// The text contains no free text of the provider.
    package let text: String
    /// Whether the finding may be harmless.
    package var isDoubtful = false
}
