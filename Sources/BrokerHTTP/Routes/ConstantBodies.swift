import Broker
import NIOCore

/// The bodies that are the same for all requests, for example openapi.yaml.
///
/// Each body is created once, and all answers share it.
struct ConstantBodies: Sendable {
    let contract: ByteBuffer
    /// The two app association files; if one is nil, its path answers 404.
    let appleAppSiteAssociation: ByteBuffer?
    let assetLinks: ByteBuffer?
    let providers: ByteBuffer

    init(_ configuration: HTTPConfiguration, profiles: [ProviderProfile]) {
        contract = ByteBuffer(bytes: configuration.openAPI)
        appleAppSiteAssociation = configuration.appleAppSiteAssociation.map { ByteBuffer(bytes: $0) }
        assetLinks = configuration.assetLinks.map { ByteBuffer(bytes: $0) }
        providers = ByteBuffer(bytes: ProvidersBody.bytes(profiles))
    }
}
