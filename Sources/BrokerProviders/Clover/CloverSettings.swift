/// The settings that only `kind: clover` has.
package struct CloverSettings: Sendable, Equatable {
    /// The setting `environment`.
    package enum Environment: String, Sendable, CaseIterable { case sandbox, us, eu, la }

    /// `environment`: selects Clover's two hosts; `endpoints` overrides them.
    package var environment: Environment
    /// `site_url`: every redirect URI must be under this URL, because Clover refuses others.
    package var siteURL: String?

    package init(environment: Environment, siteURL: String? = nil) {
        self.environment = environment
        self.siteURL = siteURL
    }
}
