// The names that apps may import. In coatcheck.ts, all other names are private.
export {
    Session, Child, HandOverCookie, Registration, StepUp, SignIn, MovedIn, Standing,
    SessionEvent, SignInBrowser, AppLogin, Options, Problem, StepUpRequired, Cancelled,
    PresenceKeyLost, Unreachable, LoginFailed, KeyLost
} from './values'
export { Credentials, CredentialStorage, MemoryStorage } from './storage'
export { ProofPublicKey, ProofKey, hashedNonce, KeyPairStorage, WebCryptoKey, indexedKeys } from './keys'
export { Coatcheck } from './coatcheck'
