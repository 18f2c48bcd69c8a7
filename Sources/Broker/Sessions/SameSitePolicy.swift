/// The `SameSite` attribute of the cookie of web children (`children.web.same_site`).
package enum SameSitePolicy: String, Sendable, CaseIterable { case strict, lax, none }
