/// The strength, methods and time of the user's sign-in, from the id_token's `acr`, `amr` and `auth_time`.
package struct SignInFacts: Sendable, Equatable {
    package var contextClass: String?
    package var methods: [String]
    /// The time of the sign-in in seconds since 1970; nil if the provider did not report it.
    ///
    /// The broker never substitutes a time of its own.
    package private(set) var authenticatedAt: Int64?

    package init(contextClass: String? = nil, methods: [String] = [], authenticatedAt: Int64? = nil) {
        self.contextClass = contextClass
        self.methods = methods
        // Times after the year 9999 are dropped. The time 0 is dropped too, because some providers send it if they do not
        // know the time.
        self.authenticatedAt = authenticatedAt.flatMap { (1..<253_402_300_800).contains($0) ? $0 : nil }
    }
}
