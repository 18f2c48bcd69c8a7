import { Cancelled, Coatcheck, Problem, Session } from './coatcheck'

/**
 * The state of the app's screen. `message` is a sentence for the user about the last failure. `ended` is the reason why the
 * session ended, unless the user signed out here. The app chooses its sentence by it (docs/problems.md, `session_ended`).
 */
export interface Screen { starting: boolean; user: string | null; orders: string; message: string; ended: string | null }

export const starting: Screen = { starting: true, user: null, orders: '', message: '', ended: null }

function signedOut(reason: string | null = null): Screen {
  return { ...starting, starting: false, ended: reason === 'logged_out' ? null : reason }
}

/** The model of the app. `show` receives each new state. */
export class Shop {
  screen = starting

  constructor(private readonly coatcheck: Coatcheck, private readonly show: (screen: Screen) => void = () => {}) {}

  /** Shows the first screen, within two seconds. */
  async start() {
    const standing = await this.coatcheck.standing()
    // If the network is missing, the user stays signed in.
    const session = standing.kind === 'signedIn' ? standing.session : standing.kind === 'unknown' ? standing.last : null
    this.change(session ? this.signedIn(session) : signedOut(standing.kind === 'signedOut' ? standing.reason : null))
  }

  async signIn() {
    await this.attempt(async () => {
      const signIn = await this.coatcheck.signIn('oidc')
      if (signIn.kind === 'signedIn') this.change(this.signedIn(signIn.session))
    })
  }

  /**
   * Calls the API behind the broker, which adds the provider's access token. The sandbox's API returns an echo of what the
   * upstream received, so the answer shows this token.
   */
  async loadOrders() {
    await this.attempt(async () => {
      const answer = await this.coatcheck.relay('api', 'private/orders')
      this.change({ orders: `${answer.status}: ${await answer.text()}` })
    })
  }

  async signOut() {
    await this.attempt(async () => { await this.coatcheck.signOut() })
    this.change(signedOut())
  }

  /** Follows the session while the app is in the foreground. A sign-out on another device ends it here, too. */
  async follow(signal: AbortSignal) {
    await this.attempt(async () => {
      for await (const event of this.coatcheck.events(signal)) if (event.kind === 'ended') this.change(signedOut(event.reason))
    }, signal)
  }

  /** Shows the user's name, which the provider returns for the scope `profile`. */
  private signedIn(session: Session): Screen {
    const name = session.identity.name
    return { ...signedOut(), user: typeof name === 'string' ? name : session.subject }
  }

  private change(screen: Partial<Screen>) {
    this.screen = { ...this.screen, ...screen }
    this.show(this.screen)
  }

  private async attempt(work: () => Promise<void>, signal?: AbortSignal) {
    this.change({ message: '' })
    try {
      await work()
    } catch (error) {
      if (error instanceof Problem && error.endsSession) return this.change(signedOut(error.reason))
      // The user closed the sign-in page, or the view is gone.
      if (error instanceof Cancelled || signal?.aborted) return
      // Every other failure leaves the user signed in. The details are for the developer.
      this.change({ message: String(error) })
      if (error instanceof Problem) console.warn(error.json.detail, error.json.errors ?? [])
    }
  }
}
